#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Whether the text begins as the JSON of torch.export does: an object whose first key is "graph_module".
bool is_exported_program(std::string_view begin);

/// The forward network in a program of torch.export: models/model.json of a .pt2 file, or
/// serialized_exported_program.json (schema 8.x; what is unknown is passed over). ATen's operators become those of
/// Model where they have one (linear, mm, addmm, bmm, matmul, convolution, activations, arithmetic, softmax,
/// layer_norm, batch_norm, pooling, embedding, cat, dropout, scaled_dot_product_attention, views); of the others only
/// the shapes are known, and the notes name them. Sizes that the program leaves open are `bind`'s, else the hints of
/// the file, which a note names.
///
/// Throws InputError with line and column: those of every JSON file (read_graph), "exported-program" (a value without
/// its type and shape, a node that reads what nothing makes, a program with gradients, a graph within a node),
/// "unbound-dimension", "unknown-dimension", and as infer_shapes does.
Model parse_exported_program(std::string_view text, const std::string& name,
                             const std::map<std::string, std::int64_t>& bind = {});

/// Reads the JSON, or a .pt2 archive of torch.export.save, of which the weights are passed over. Throws InputError also
/// as read_input and read_zip_member do.
Model read_exported_program(const std::filesystem::path& path, const std::map<std::string, std::int64_t>& bind = {});

}  // namespace trainyard
