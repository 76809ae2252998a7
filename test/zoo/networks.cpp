#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// A spec of the network with every parameter at or near its minimum.
std::string small_spec(const Network& network) {
  std::string spec = network.name;
  char separator = ':';
  for (const auto& parameter : network.parameters) {
    std::int64_t value = parameter.least;
    if (parameter.name == "hidden") value = 8;
    if (parameter.name == "heads" || parameter.name == "layers" || parameter.name == "steps") value = 2;
    if (parameter.name == "seq") value = 5;
    if (parameter.name == "positions") value = 5;
    if (parameter.name == "patch") value = 4;
    if (parameter.name == "image" && network.name == "vit_b_16") value = 8;
    if (parameter.name == "head") value = 1;
    spec += separator + parameter.name + "=" + std::to_string(value);
    separator = ',';
  }
  return spec;
}

void check_well_formed(const Model& model) {
  CAPTURE(model.name);
  std::vector<bool> known(model.values.size());
  for (const ValueId id : model.values.ids()) {
    const Value& value = model.values[id];
    CHECK(value.shape_known);
    CHECK(elements(value.shape) > 0);
    if (value.role != Value::Role::activation) known[id.index()] = true;
    if (value.contents_known) CHECK(static_cast<std::int64_t>(value.integers.size()) == elements(value.shape));
  }
  std::vector<bool> used(model.values.size());
  bool in_order = true;
  for (const auto& node : model.nodes) {
    CHECK_FALSE(node.layer.empty());
    CHECK_FALSE(node.outputs.empty());
    for (const ValueId input : node.inputs) {
      in_order = in_order && known[input.index()];
      used[input.index()] = true;
    }
    for (const ValueId output : node.outputs) {
      CHECK_FALSE(known[output.index()]);  // one producer each
      known[output.index()] = true;
    }
  }
  CHECK(in_order);
  for (const ValueId id : model.values.ids()) {
    const Value& value = model.values[id];
    if (value.role != Value::Role::activation) CHECK_MESSAGE(used[id.index()], value.name);
  }
  REQUIRE(model.outputs.size() == 1);
  CHECK(known[model.outputs[0].index()]);
  CHECK_FALSE(model.inputs.empty());
  CHECK_FALSE(model.from_inference_export);
}

void check_unique_names(const Model& model) {
  std::set<std::string> names;
  for (const auto& node : model.nodes) CHECK_MESSAGE(names.insert(node.name).second, node.name);
  names.clear();
  for (const auto& value : model.values) CHECK_MESSAGE(names.insert(value.name).second, value.name);
}

bool same(const Node& a, const Node& b) {
  return a.name == b.name && a.type == b.type && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.attributes == b.attributes && a.layer == b.layer;
}

bool same(const Value& a, const Value& b) {
  return a.name == b.name && a.type == b.type && a.shape == b.shape && a.role == b.role && a.integers == b.integers;
}

std::string block_of(const std::string& layer) { return layer.substr(0, layer.find('/')); }

std::vector<std::string> branches_of(const Model& model, const std::string& block) {
  std::vector<std::string> branches;
  for (const auto& node : model.nodes) {
    const auto slash = node.layer.find('/');
    if (slash == std::string::npos || node.layer.substr(0, slash) != block) continue;
    const std::string branch = node.layer.substr(slash + 1);
    if (std::find(branches.begin(), branches.end(), branch) == branches.end()) branches.push_back(branch);
  }
  return branches;
}

}  // namespace

TEST_CASE("every network builds at its defaults: in topological order, all shapes known, every name once") {
  for (const auto& network : networks()) {
    const Model model = make_network(network.name);
    check_well_formed(model);
    check_unique_names(model);
  }
}

TEST_CASE("every network builds at about the smallest numbers that it takes") {
  for (const auto& network : networks()) {
    const Model model = make_network(small_spec(network));
    check_well_formed(model);
    check_unique_names(model);
  }
}

TEST_CASE("every convolutional network builds at the smallest image that it takes, and at odd sizes") {
  for (const auto& network : networks()) {
    for (const auto& parameter : network.parameters) {
      if (parameter.name != "image" || network.name == "vit_b_16") continue;
      for (const std::int64_t more : {0, 1, 2, 3, 5, 14, 33}) {
        CAPTURE(network.name);
        CHECK_NOTHROW(make_network(network.name + ":batch=1,image=" + std::to_string(parameter.least + more)));
      }
    }
  }
}

TEST_CASE("a network built twice is the same node for node") {
  for (const auto& network : networks()) {
    const Model a = make_network(network.name), b = make_network(network.name);
    CAPTURE(network.name);
    REQUIRE(a.nodes.size() == b.nodes.size());
    REQUIRE(a.values.size() == b.values.size());
    CHECK(std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), [](auto& x, auto& y) { return same(x, y); }));
    CHECK(std::equal(a.values.begin(), a.values.end(), b.values.begin(), [](auto& x, auto& y) { return same(x, y); }));
  }
}

TEST_CASE("the catalogue names each network and each parameter once, and says what they are") {
  std::set<std::string> names;
  for (const auto& network : networks()) {
    CHECK(names.insert(network.name).second);
    CHECK(find_network(network.name) == &network);
    CHECK_FALSE(network.summary.empty());
    CHECK_FALSE(network.source.empty());
    std::set<std::string> parameters;
    for (const auto& parameter : network.parameters) {
      CHECK(parameters.insert(parameter.name).second);
      CHECK_FALSE(parameter.meaning.empty());
      CHECK(parameter.least <= parameter.value);
      CHECK(parameter.value <= parameter.most);
    }
    CHECK(parameters.count("batch") == 1);
  }
  CHECK(find_network("no such") == nullptr);
}

TEST_CASE("the batch goes through to the output, and the parameters do not depend on it") {
  for (const auto& network : networks()) {
    const std::string spec = small_spec(network);
    const Model one = make_network(spec);
    const Model three = make_network(std::string{spec}.replace(spec.find("batch=1"), 7, "batch=3"));
    CAPTURE(spec);
    CHECK(three.values[three.outputs[0]].shape[0] == 3);
    CHECK(three.parameter_count() == one.parameter_count());
    CHECK(three.nodes.size() == one.nodes.size());
  }
}

TEST_CASE("parallel branches stand behind a slash in the layer, and what joins them does not") {
  const Model inception = make_network("inception_v3");
  CHECK(branches_of(inception, "mixed_5b") ==
        std::vector<std::string>{"branch1x1", "branch5x5", "branch3x3dbl", "branch_pool"});
  CHECK(branches_of(make_network("squeezenet1_1"), "fire3") == std::vector<std::string>{"expand1x1", "expand3x3"});
  CHECK(branches_of(make_network("googlenet"), "inception4a").size() == 4);
  CHECK(branches_of(make_network("gnmt"), "encoder0") == std::vector<std::string>{"forward", "backward"});
  CHECK(branches_of(make_network("nasnet_mobile"), "cell_3").size() == 7);  // two inputs, five combinations
  for (const auto& node : inception.nodes) {
    if (node.type == "Concat" && node.layer == block_of(node.layer)) CHECK(node.inputs.size() >= 3);
  }
}

TEST_CASE("the blocks of a network follow each other") {
  std::vector<std::string> blocks;
  for (const auto& node : make_network("resnet18").nodes) {
    if (blocks.empty() || blocks.back() != node.layer) blocks.push_back(node.layer);
  }
  CHECK(blocks == std::vector<std::string>{"stem", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer3.0",
                                           "layer3.1", "layer4.0", "layer4.1", "head"});
}

TEST_CASE("all steps of a recurrent layer are one layer and share its weights") {
  const Model model = make_network("rnnlm:layers=2,steps=3,hidden=8,vocabulary=11,batch=2");
  std::set<ValueId> weights;
  int gemms = 0;
  for (const auto& node : model.nodes) {
    if (node.type != "Gemm") continue;
    CHECK((node.layer == "lstm0" || node.layer == "lstm1"));
    weights.insert(node.inputs[1]);
    ++gemms;
  }
  CHECK(gemms == 6);  // 2 layers x 3 steps
  CHECK(weights.size() == 2);
}
