#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "trainyard/graph/graph.hpp"
#include "trainyard/place/pipedream/layer_profile.hpp"

namespace trainyard {

/// Reads a profile as PipeDream's profiler writes it ("graph.txt"): a line for each layer,
///
///     node4 -- Conv2d(64, 64) -- forward_compute_time=7.1, backward_compute_time=15.2, activation_size=822083584.0,
///     parameter_size=147712.000
///
/// (one line in the file; milliseconds and bytes; activation_size may be a list, "[1.0; 2.0]", of which the sum counts;
/// " -- stage_id=0" may follow), and for each edge one that begins with a tab, blanks and a tab, or blanks (DAPPLE's
/// files), "node1 -- node2". Layers come back in the file's order. Throws InputError with line and column:
/// "profile-line", "number", "duplicate-name", "unknown-layer", "empty-profile".
LayerProfile read_pipedream_profile(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
LayerProfile parse_pipedream_profile(std::string_view text, const std::string& name);

/// The profile without what PipeDream leaves out of its search: sources whose type begins with "Input", and layers
/// without readers whose type begins with "__getitem__".
LayerProfile without_inputs(const LayerProfile& profile);

/// One training step: each layer is a forward op of its name and a backward op "NAME.backward" on the same device, with
/// their times on "gpu". Activations go along the edges, gradients of the same bytes back; a backward op also needs
/// what its forward op read and made. Throws InputError as GraphBuilder::build does, with layers as ops.
Graph profile_graph(const LayerProfile& profile);

}  // namespace trainyard
