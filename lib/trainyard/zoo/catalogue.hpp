#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/zoo/network.hpp"

namespace trainyard::zoo {

// Catalogue entries of each file of networks.
std::vector<Network> classic_networks();    // LeNet, AlexNet, VGG
std::vector<Network> squeeze_networks();    // SqueezeNet
std::vector<Network> resnet_networks();     // ResNet
std::vector<Network> googlenet_networks();  // GoogLeNet
std::vector<Network> inception_networks();  // Inception-v3
std::vector<Network> nasnet_networks();     // NASNet-A
std::vector<Network> enas_networks();       // random cells
std::vector<Network> densenet_networks();   // DenseNet
std::vector<Network> mobilenet_networks();  // MobileNet-v2
std::vector<Network> rnnlm_networks();      // RNNLM
std::vector<Network> nmt_networks();        // NMT, GNMT
std::vector<Network> transformer_networks();
std::vector<Network> bert_networks();
std::vector<Network> gpt2_networks();
std::vector<Network> gpt3_networks();
std::vector<Network> gshard_networks();
std::vector<Network> llama_networks();  // and Mixtral
std::vector<Network> deepseek_networks();
std::vector<Network> dlrm_networks();
std::vector<Network> t5_networks();  // and Switch
std::vector<Network> vit_networks();

// Parameters of several networks.
inline NetworkParameter batch_parameter(std::int64_t value) {
  return {"batch", value, 1, 1'048'576, "samples per step"};
}
inline NetworkParameter image_parameter(std::int64_t value, std::int64_t least) {
  return {"image", value, least, 8192, "height and width of the image in pixels"};
}
inline NetworkParameter classes_parameter(std::int64_t value) {
  return {"classes", value, 1, 10'000'000, "number of classes"};
}
inline NetworkParameter vocabulary_parameter(std::int64_t value) {
  return {"vocabulary", value, 1, 10'000'000, "number of words or tokens in the vocabulary"};
}
inline NetworkParameter layers_parameter(std::int64_t value, const std::string& meaning = "layers") {
  return {"layers", value, 1, 1024, meaning};
}
inline NetworkParameter hidden_parameter(std::int64_t value, const std::string& meaning = "width of a layer") {
  return {"hidden", value, 1, 65'536, meaning};
}
inline NetworkParameter heads_parameter(std::int64_t value) {
  return {"heads", value, 1, 1024, "attention heads; must divide the width"};
}
inline NetworkParameter seq_parameter(std::int64_t value, std::int64_t most = 131'072) {
  return {"seq", value, 1, most, "tokens per sample"};
}
inline NetworkParameter positions_parameter(std::int64_t value) {
  return {"positions", value, 1, 131'072, "positions with an embedding; at least seq"};
}

inline NetworkParameter fused_parameter() {
  return {"fused", 0, 0, 1, "1: attention is one op that stores no scores (as FlashAttention) and has no dropout"};
}
inline NetworkParameter experts_parameter(std::int64_t value) {
  return {"experts", value, 1, 65'536, "experts per layer"};
}
inline NetworkParameter chosen_parameter(std::int64_t value) { return {"chosen", value, 1, 1024, "experts per token"}; }
inline NetworkParameter capacity_parameter(std::int64_t value) {
  return {"capacity", value, 1, 100'000, "tokens of a sample that an expert accepts, in % of an even share"};
}

/// Throws InputError ("range") if seq exceeds the number of positions that have an embedding.
void require_positions(std::int64_t seq, std::int64_t positions);

}  // namespace trainyard::zoo
