#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Whether the text begins like the JSON of torch.export: an object whose first key is "graph_module".
bool is_exported_program(std::string_view begin);

/// Reads the forward network of a torch.export program: models/model.json of a .pt2 file, or
/// serialized_exported_program.json (schema 8.x; unknown keys are ignored). ATen operators become the operators of
/// Model that correspond to them (linear, mm, addmm, bmm, matmul, convolution, activations, arithmetic, softmax,
/// layer_norm, batch_norm, pooling, embedding, cat, dropout, scaled_dot_product_attention, views). Only the shapes of
/// other operators are known; the notes name them. Open sizes are taken from `bind`, otherwise from the hints of the
/// file, which the notes list.
///
/// Throws InputError with line and column: the codes of every JSON file (read_graph), "exported-program" (a value
/// without type and shape, a node that reads a value nothing makes, a program with gradients, a graph within a node),
/// "unbound-dimension", "unknown-dimension", and as infer_shapes() does.
Model parse_exported_program(std::string_view text, const std::string& name,
                             const std::map<std::string, std::int64_t>& bind = {});

/// Reads the JSON file, or a .pt2 archive of torch.export.save, whose weights are skipped. Also throws InputError as
/// read_input() and read_zip_member() do.
Model read_exported_program(const std::filesystem::path& path, const std::map<std::string, std::int64_t>& bind = {});

}  // namespace trainyard
