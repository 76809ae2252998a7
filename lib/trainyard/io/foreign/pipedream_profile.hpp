#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "trainyard/graph/graph.hpp"
#include "trainyard/place/pipedream/layer_profile.hpp"

namespace trainyard {

/// Reads a profile written by PipeDream's profiler ("graph.txt"). Each layer has a line
///
///     node4 -- Conv2d(64, 64) -- forward_compute_time=7.1, backward_compute_time=15.2, activation_size=822083584.0,
///     parameter_size=147712.000
///
/// (shown here on two lines; milliseconds and bytes). activation_size may be a list, "[1.0; 2.0]", whose sum is used,
/// and a part "stage_id=0" may follow. Each edge has a line "node1 -- node2" that begins with a tab, blanks and a tab,
/// or blanks (DAPPLE's files). Layers are returned in the order of the file. Throws InputError with line and column:
/// "profile-line", "number", "duplicate-name", "unknown-layer", "empty-profile".
LayerProfile read_pipedream_profile(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
LayerProfile parse_pipedream_profile(std::string_view text, const std::string& name);

/// The profile without the layers that PipeDream excludes from its search: sources whose type begins with "Input", and
/// layers without readers whose type begins with "__getitem__".
LayerProfile without_inputs(const LayerProfile& profile);

/// One training step. Each layer becomes a forward op with its name and a backward op "NAME.backward" on the same
/// device, with their times on "gpu". Activations go along the edges, and gradients of the same size go back. A
/// backward op also reads its forward op's inputs and output. Throws InputError as GraphBuilder::build() does, with
/// layers as ops.
Graph profile_graph(const LayerProfile& profile);

}  // namespace trainyard
