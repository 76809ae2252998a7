#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trainyard/zoo/catalogue.hpp"
#include "trainyard/zoo/layers.hpp"

namespace trainyard::zoo {

namespace {

constexpr std::int64_t kDense = 13;  // dense features of a sample
constexpr std::size_t kCategories = 26;

/// A recommender. Each category of a sample looks up a row of a table, and the dense features go through a perceptron.
/// All pairs of the resulting vectors are multiplied, and a second perceptron predicts clicks.
struct Criteo {
  std::array<std::int64_t, kCategories> rows;  // of each table
  std::vector<std::int64_t> bottom, top;       // inner widths of the perceptrons
};

// Criteo's terabyte data, with category numbers modulo 40 million, as MLPerf trains it.
const Criteo& terabyte() {
  static const Criteo criteo{{39'884'406, 39'043,     17'289,     7'420,      20'263,  3,      7'120, 1'543, 63,
                              38'532'951, 2'953'546,  403'346,    10,         2'208,   11'938, 155,   4,     976,
                              14,         39'979'771, 25'641'295, 39'664'984, 585'935, 12'972, 108,   36},
                             {512, 256},
                             {1024, 1024, 512, 256}};
  return criteo;
}
const Criteo& kaggle() {
  static const Criteo criteo{
      {1'460, 583,    10'131'227, 2'202'608, 305,   24,    12'517, 633,       3,  93'145, 5'683,   8'351'593, 3'194,
       27,    14'992, 5'461'306,  10,        5'652, 2'173, 4,      7'046'547, 18, 15,     286'181, 105,       142'572},
      {512, 256, 64},
      {512, 256}};
  return criteo;
}

Model dlrm(const NetworkArguments& given, const Criteo& criteo) {
  const std::int64_t batch = given["batch"], width = given["hidden"];
  LayerBuilder net{given.network()};
  const ValueId dense = net.input("dense", {batch, kDense});
  std::vector<ValueId> categories;
  for (std::size_t i = 0; i < kCategories; ++i)
    categories.push_back(net.input("category_" + std::to_string(i), {batch}, DataType::int64));

  net.at("bottom");
  ValueId x = dense;
  for (const std::int64_t inner : criteo.bottom) x = net.relu(net.linear(x, inner));
  x = net.relu(net.linear(x, width));
  std::vector<ValueId> vectors{x};
  for (std::size_t i = 0; i < kCategories; ++i) {
    net.at("table_" + std::to_string(i));
    const ValueId table = net.parameter("weight", {std::min(criteo.rows[i], given["rows"]), width});
    vectors.push_back(net.embedding(table, categories[i]));
  }

  net.at("interaction");
  constexpr auto kVectors = static_cast<std::int64_t>(kCategories + 1);
  const ValueId all = net.stack(vectors, 1);
  const ValueId products = net.matmul(all, net.transpose(all, {0, 2, 1}));
  std::vector<std::int64_t> pairs;  // below the diagonal
  for (std::int64_t i = 0; i < kVectors; ++i)
    for (std::int64_t j = 0; j < i; ++j) pairs.push_back(i * kVectors + j);
  const ValueId flat = net.reshape(products, {batch, kVectors * kVectors});
  const ValueId dots = net.append("Gather", {flat, net.constant(pairs)}, {{"axis", std::int64_t{1}}});
  x = net.concat({x, dots}, 1);

  net.at("top");
  for (const std::int64_t inner : criteo.top) x = net.relu(net.linear(x, inner));
  x = net.linear(x, 1);
  // Binary cross entropy is the cross entropy of two classes, the first with logit 0.
  net.at("head");
  const ValueId none = net.opaque_constant({batch, 1});
  return std::move(net).finish({net.concat({none, x}, 1)});
}

Model dlrm_terabyte(const NetworkArguments& given) { return dlrm(given, terabyte()); }
Model dlrm_kaggle(const NetworkArguments& given) { return dlrm(given, kaggle()); }

Network dlrm_preset(const char* name, const char* summary, std::int64_t width, std::int64_t batch,
                    Model (*build)(const NetworkArguments&)) {
  return {name,
          summary,
          "Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems, 2019",
          {batch_parameter(batch),
           hidden_parameter(width, "width of a table's rows"),
           {"rows", 40'000'000, 1, 1'000'000'000, "largest number of rows per table"}},
          build};
}

}  // namespace

std::vector<Network> dlrm_networks() {
  return {
      dlrm_preset("dlrm_terabyte", "DLRM of MLPerf, for Criteo's terabyte data: 26 tables, dot products of all pairs",
                  128, 2048, &dlrm_terabyte),
      dlrm_preset("dlrm_kaggle", "DLRM for Criteo's Kaggle data: 26 tables, dot products of all pairs", 16, 128,
                  &dlrm_kaggle),
  };
}

}  // namespace trainyard::zoo
