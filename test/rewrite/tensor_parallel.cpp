#include "trainyard/rewrite/tensor_parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/by_name.hpp"
#include "support/model_sketch.hpp"
#include "trainyard/cost/op_signature.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::op_named;

namespace {

using Names = std::vector<std::string>;

TensorParallelGraph ranks_of(const std::string& network, std::size_t ranks, Granularity granularity = Granularity::op) {
  return tensor_parallel(training_graph(make_network(network), {.granularity = granularity}), {ranks});
}

std::string signature(const TensorParallelGraph& parallel, const char* op) {
  return parallel.graph.signature(op_named(parallel.graph, op));
}

/// Counts the collectives of a pass by description, as in "all-reduce 1024".
std::map<std::string, int> collectives_of(const TensorParallelGraph& parallel, Phase phase) {
  std::map<std::string, int> counts;
  for (const RankCollective& each : parallel.collectives)
    if (each.phase == phase) ++counts[std::string{name_of(each.kind)} + " " + std::to_string(each.bytes.count)];
  return counts;
}

using Counts = std::map<std::string, int>;

Counts all_gathers(const TensorParallelGraph& parallel, Phase phase) {
  Counts counts = collectives_of(parallel, phase);
  std::erase_if(counts, [](const auto& each) { return !each.first.starts_with("all-gather"); });
  return counts;
}

}  // namespace

TEST_CASE("a transformer's layer is a column and a row twice, with two all-reduces in each pass") {
  const auto parallel = ranks_of("gpt2:batch=2,seq=128,layers=3,hidden=256,heads=8,positions=128", 4);
  CHECK(signature(parallel, "h.1/linear^2") ==
        "Linear(float32[2,128,256],float32[256,192],float32[192])->float32[2,128,192]");
  CHECK(signature(parallel, "h.1/matmul^2") == "MatMul(float32[2,2,128,32],float32[2,2,32,128])->float32[2,2,128,128]");
  CHECK(signature(parallel, "h.1/linear_2^2") ==
        "Linear(float32[2,128,64],float32[64,256],float32[256])->float32[2,128,256]");
  CHECK(signature(parallel, "h.1/linear_2/grad^2") ==
        "LinearGrad(float32[2,128,256],float32[64,256],float32[2,128,64])->"
        "float32[2,128,64],float32[64,256],float32[256]");
  CHECK(signature(parallel, "h.1/linear/grad^2") ==
        "LinearGrad(float32[2,128,192],float32[256,192],float32[2,128,256])->"
        "float32[2,128,256],float32[256,192],float32[192]");
  CHECK(inputs_of(parallel.graph, "h.1/dropout_2^3") == Names{"h.1/linear_2.out/whole^3"});
  // 2 x 128 x 256 numbers are 262,144 bytes. Forward: all-reduces of the layers' outputs and the embedding's, and of
  // three numbers for each of 256 rows of logits. Backward: of the layers' inputs and the head's.
  CHECK(collectives_of(parallel, Phase::forward) == Counts{{"all-reduce 262144", 3 * 2 + 1}, {"all-reduce 3072", 1}});
  CHECK(collectives_of(parallel, Phase::backward) == Counts{{"all-reduce 262144", 3 * 2 + 1}});
  CHECK(collectives_of(parallel, Phase::update).empty());
}

TEST_CASE(
    "with sequence parallelism a layer has two reduce-scatters and two all-gathers in each pass, and two more back") {
  const Graph whole = training_graph(make_network("gpt2:batch=2,seq=128,layers=3,hidden=256,heads=8,positions=128"));
  const auto parallel = tensor_parallel(whole, {.ranks = 4, .sequence = true});
  CHECK(signature(parallel, "h.1/layer_norm_2^3") ==
        "LayerNormalization(float32[2,32,256],float32[256],float32[256])->float32[2,32,256]");
  CHECK(signature(parallel, "h.1/linear^3") ==
        "Linear(float32[2,128,256],float32[256,192],float32[192])->float32[2,128,192]");
  CHECK(inputs_of(parallel.graph, "h.1/dropout_2^3") == Names{"h.1/linear_2.out/rows^3"});
  CHECK(inputs_of(parallel.graph, "h.1/linear^3") == Names{"h.1/layer_norm.out/whole^3"});
  CHECK(inputs_of(parallel.graph, "h.1/linear/grad^3") ==
        Names{"h.1/linear.out.grad^3", "h.1/layer_norm.out/whole#2^3"});
  // Forward: the results of each layer's two row products and of the embedding are reduce-scattered. The inputs of each
  // layer's two column products and of the head are gathered.
  CHECK(collectives_of(parallel, Phase::forward) ==
        Counts{{"reduce-scatter 262144", 3 * 2 + 1}, {"all-gather 262144", 3 * 2 + 1}, {"all-reduce 3072", 1}});
  // Backward: the gradients of the column products' inputs are reduce-scattered. Gathered are the gradients for the row
  // products and for both embeddings (one sample for the positions), and the inputs of the column products once more.
  CHECK(collectives_of(parallel, Phase::backward) == Counts{{"reduce-scatter 262144", 3 * 2 + 1},
                                                            {"all-gather 262144", 3 * 2 + 1 + 3 * 2 + 1},
                                                            {"all-gather 131072", 1}});

  // Once a step, the gradients of norm parameters, which every rank holds whole, are all-reduced: 2 x 256 numbers a
  // norm, two norms a layer and one of the head.
  CHECK(collectives_of(parallel, Phase::update) == Counts{{"all-reduce 4096", 3}, {"all-reduce 2048", 1}});
  CHECK(inputs_of(parallel.graph, "h.1/layer_norm.weight/update^3") == Names{"h.1/layer_norm.weight.grad/whole^3"});

  // Activations kept for the backward pass are divided: 1/4 of everything except scalars.
  const auto kept = [](const Graph& graph, const auto& counts) {
    std::int64_t bytes = 0;
    for (const TensorId tensor : graph.tensors()) {
      const auto readers = graph.consumers(tensor);
      const bool back =
          std::any_of(readers.begin(), readers.end(), [&](OpId op) { return graph.phase(op) == Phase::backward; });
      const OpId maker = graph.producer(tensor);
      if (back && graph.phase(maker) == Phase::forward && graph.layer(maker).starts_with("h.") && counts(maker))
        bytes += graph.bytes(tensor).count;
    }
    return bytes;
  };
  const std::int64_t all = kept(whole, [](OpId) { return true; });
  const auto of_first = [](const TensorParallelGraph& ranks) {
    return [&ranks](OpId op) { return ranks.rank[op] == 0; };
  };
  CHECK(kept(parallel.graph, of_first(parallel)) == all / 4);
  const auto without = tensor_parallel(whole, {4});
  CHECK(kept(without.graph, of_first(without)) > 3 * all / 10);
  // A gather for the backward pass waits for the gradient that its op reads, instead of starting in the forward pass.
  for (const OpId op : parallel.graph.after(op_named(parallel.graph, "h.1/layer_norm.out#2/all-gather/wait@3")))
    CHECK(parallel.graph.name(op) == "h.1/split/grad^3");
}

TEST_CASE("replicas add the norms' gradients by stage and rank, whole under ZeRO too, before ranks do by layer") {
  const Graph ranks = tensor_parallel(training_graph(make_network("gpt2:batch=2,seq=8,positions=8,layers=2,hidden=16,"
                                                                  "heads=2,vocabulary=20")),
                                      {.ranks = 2, .collective = Collective::whole, .sequence = true})
                          .graph;
  const Replicate replicate{.replicas = 2, .collective = Collective::whole, .zero = 1, .stages = {"h.1/layer_norm^1"}};
  const Graph graph = data_parallel(ranks, replicate).graph;
  // A norm has 2 x 16 numbers, 128 bytes. The first norm comes before the ranks share the sequence. The second stage
  // has two norms and the head's.
  const auto counts = test::collectives(graph);
  CHECK(counts.at("all-reduce 384 of 2") == 2);          // among replicas, for each rank: the second stage
  CHECK(counts.at("all-reduce 128 of 2") == 2 + 2 + 2);  // replicas: the first; ranks, for each replica: h.0, head
  CHECK(counts.at("all-reduce 256 of 2") == 2);          // ranks: h.1
  CHECK(inputs_of(graph, "h.0/layer_norm_2.weight.grad/all-reduce/ready@2@1") ==
        Names{"h.0/layer_norm_2.weight.grad^2/sum@1", "h.0/layer_norm_2.bias.grad^2/sum@1"});
}

TEST_CASE("a network without a sequence has none to be shared") {
  CHECK_FALSE(shares_sequence(training_graph(make_network("resnet50")), {.ranks = 2, .sequence = true}));
  CHECK(shares_sequence(training_graph(make_network("gpt2:layers=1")), {.ranks = 2, .sequence = true}));
  // 129 words cannot be divided by 2.
  CHECK_FALSE(shares_sequence(training_graph(make_network("gpt2:layers=1,seq=129")), {.ranks = 2, .sequence = true}));
}

TEST_CASE("a rank holds its share of the weights and whole what follows a row") {
  const auto parallel = ranks_of("gpt2:layers=1", 2);
  std::map<std::string, std::int64_t> held;
  for (const OpId op : parallel.graph.ops())
    if (parallel.rank[op] == 1) held[parallel.graph.layer(op)] += parallel.graph.parameter_bytes(op).count;
  // With h = 768: columns (h x 3h + 3h) / 2 and (h x 4h + 4h) / 2, rows h x h / 2 + h and 4h x h / 2 + h, two norms of
  // 2h.
  const std::int64_t h = 768;
  CHECK(held["h.0"] == 4 * ((3 * h * h + 3 * h) / 2 + (4 * h * h + 4 * h) / 2 + h * h / 2 + h + 2 * h * h + h + 4 * h));
  // Half of the 50,257 words, all of the 1,024 positions.
  CHECK(held["embedding"] == 4 * 1024 * h + 4 * 50257 * h / 2);
  CHECK(held["head"] == 4 * 2 * h);
}

TEST_CASE("ranks divide the FLOPs of products among them") {
  const Graph whole = training_graph(make_network("gpt2:layers=2"));
  const auto parallel = tensor_parallel(whole, {4});
  const auto products = [](const Graph& graph) {
    double flops = 0;
    for (const OpId op : graph.ops())
      if (graph.type(op).starts_with("Linear") || graph.type(op).starts_with("MatMul")) flops += graph.flops(op).value;
    return flops;
  };
  CHECK(products(parallel.graph) == doctest::Approx(products(whole)));
}

TEST_CASE("gradients of several columns of one tensor add up before their all-reduce") {
  // BERT has separate products for query, key and value: one all-reduce for the three, and one for the wide layer.
  const auto parallel = ranks_of("bert_base:layers=1", 2);
  const Counts backward = collectives_of(parallel, Phase::backward);
  // 16 x 384 x 768 numbers are 18,874,368 bytes: of attention, of the wide layer, and of the head's two products.
  CHECK(backward.at("all-reduce 18874368") == 4);
}

TEST_CASE("convolutions divide channels: batch norm and activations between two are shares") {
  const auto parallel = ranks_of("resnet50:batch=2", 2);
  CHECK(signature(parallel, "stem/conv^1") == "Conv(float32[2,3,224,224],float32[32,3,7,7])->float32[2,32,112,112]");
  CHECK(signature(parallel, "layer1.0/conv^1") == "Conv(float32[2,32,56,56],float32[64,32,1,1])->float32[2,64,56,56]");
  CHECK(inputs_of(parallel.graph, "layer1.0/batch_norm^1") == Names{"layer1.0/conv.out/whole^1"});
  CHECK(signature(parallel, "layer1.0/conv_2^1") ==
        "Conv(float32[2,64,56,56],float32[32,64,3,3])->float32[2,32,56,56]");
  CHECK(signature(parallel, "layer1.0/batch_norm_2^1") ==
        "BatchNormalization(float32[2,32,56,56],float32[32],float32[32],float32[32],float32[32])->float32[2,32,56,56]");
  CHECK(signature(parallel, "layer1.0/conv_3^1") ==
        "Conv(float32[2,32,56,56],float32[256,32,1,1])->float32[2,256,56,56]");
}

TEST_CASE("of grouped queries several ranks read the keys and values of one head, which are gathered") {
  const std::string small = "layers=1,batch=1,seq=16,hidden=128,heads=8,kv_heads=2,inner=64,vocabulary=64";
  const Graph whole = training_graph(make_network("llama3_8b:" + small));
  const auto parallel = tensor_parallel(whole, {4});
  // For each of 2 keys, 4 query heads of 16 rows; a rank has 2 of a key's 4 heads.
  CHECK(signature(parallel, "layers.0/matmul^2") ==
        "MatMul(float32[1,1,32,16],float32[1,1,16,16])->float32[1,1,32,16]");
  CHECK(signature(parallel, "layers.0/matmul/grad^2") ==
        "MatMulGrad(float32[1,1,32,16],float32[1,1,16,16],float32[1,1,32,16])->"
        "float32[1,1,32,16],float32[1,1,16,16]");
  CHECK(signature(parallel, "layers.0/softmax^2") == "Softmax(float32[1,2,16,16])->float32[1,2,16,16]");
  CHECK(inputs_of(parallel.graph, "layers.0/matmul^2") == Names{"layers.0/add.out^2", "layers.0/add_2.out/whole^2"});
  // 2 heads x 16 x 16 numbers of keys and of values, rows of two layers, and three numbers a row for the loss.
  CHECK(collectives_of(parallel, Phase::forward) ==
        Counts{{"all-gather 2048", 2}, {"all-reduce 8192", 2}, {"all-reduce 192", 1}});
  CHECK(collectives_of(parallel, Phase::backward) == Counts{{"reduce-scatter 2048", 2}, {"all-reduce 8192", 3}});
  for (const OpId op : whole.ops())
    if (whole.type(op).starts_with("MatMul") || whole.type(op).starts_with("Softmax"))
      CHECK(4 * parallel.graph.flops(op_named(parallel.graph, rank_name(whole.name(op), 3))).value ==
            whole.flops(op).value);
  const auto fused = ranks_of("llama3_8b:fused=1," + small, 4);
  CHECK(signature(fused, "layers.0/attention^1") ==
        "Attention(float32[1,2,16,16],float32[1,1,16,16],float32[1,1,16,16])->float32[1,2,16,16]");
  CHECK(collectives_of(fused, Phase::backward) == collectives_of(parallel, Phase::backward));
  // 8 query heads cannot be divided among 16 ranks.
  CHECK(signature(ranks_of("llama3_8b:" + small, 16), "layers.0/softmax^2") ==
        "Softmax(float32[1,8,16,16])->float32[1,8,16,16]");
  CHECK(heads_shared(whole, {4}).whole.is_none());
  CHECK(whole.name(heads_shared(whole, {16}).whole) == "layers.0/matmul");
  const auto named = [&](const char* name) { return [&whole, name](OpId op) { return whole.name(op) == name; }; };
  CHECK(whole.name(heads_shared(whole, {16}, named("layers.0/matmul_2")).whole) == "layers.0/matmul_2");
  CHECK_FALSE(heads_shared(whole, {16}, named("layers.0/linear")).any);
}

TEST_CASE("keys with the extents of their queries are keys: ranks add up the terms of their gradient") {
  // 2 keys with 4 query heads of 4 rows each: 16 rows, equal to a head's width. Queries are [1,2,16,16], keys
  // [1,2,16,4].
  const std::string network = "llama3_8b:layers=1,batch=1,seq=4,hidden=128,heads=8,kv_heads=2,inner=64,vocabulary=64";
  const auto parallel = ranks_of(network, 4);
  CHECK(signature(parallel, "layers.0/matmul^2") == "MatMul(float32[1,1,8,16],float32[1,1,16,4])->float32[1,1,8,4]");
  CHECK(signature(parallel, "layers.0/matmul/grad^2") ==
        "MatMulGrad(float32[1,1,8,4],float32[1,1,16,4],float32[1,1,8,16])->float32[1,1,8,16],float32[1,1,16,4]");
  CHECK(signature(parallel, "layers.0/matmul_2/grad^2") ==
        "MatMulGrad(float32[1,1,8,16],float32[1,1,4,16],float32[1,1,8,4])->float32[1,1,8,4],float32[1,1,4,16]");
  // 2 heads x 4 x 16 numbers of keys and of values, and 4 rows of 128.
  CHECK(collectives_of(parallel, Phase::backward) == Counts{{"reduce-scatter 512", 2}, {"all-reduce 2048", 3}});
  const auto fine = ranks_of(network, 4, Granularity::fine);
  CHECK(signature(fine, "layers.0/matmul/grad_a^2") ==
        "MatMulGradA(float32[1,1,8,4],float32[1,1,16,4])->float32[1,1,8,16]");
  CHECK(signature(fine, "layers.0/matmul/grad_b^2") ==
        "MatMulGradB(float32[1,1,8,4],float32[1,1,8,16])->float32[1,1,16,4]");
  CHECK(collectives_of(fine, Phase::backward) == collectives_of(parallel, Phase::backward));
}

TEST_CASE("gradients of the parts of latent queries, keys and values stay shares of heads") {
  // Only the gradient of the key positions that all heads share is gathered: 4,096 of 64 numbers.
  CHECK(all_gathers(ranks_of("deepseek_v3:layers=1,batch=1", 4), Phase::backward) == Counts{{"all-gather 1048576", 1}});
}

TEST_CASE("a bias that all samples have is no reason to gather their scores, however few they are") {
  for (const char* batch : {"1", "2", "3"}) {
    CAPTURE(batch);
    const auto parallel = ranks_of(std::string{"t5_small:layers=2,seq=64,targets=16,batch="} + batch, 2);
    CHECK(all_gathers(parallel, Phase::forward).empty());
    // Gradients of the biases of encoder and decoder: 8 heads x 64 x 64 and 8 x 16 x 16 numbers.
    CHECK(all_gathers(parallel, Phase::backward) == Counts{{"all-gather 131072", 1}, {"all-gather 8192", 1}});
  }
}

TEST_CASE("a cross entropy of images adds up three numbers a pixel") {
  test::ModelSketch net;
  const ValueId x = net.input("x", {2, 3, 16, 16});
  const Graph graph =
      training_graph(net.finish({net.node("Conv", {x, net.parameter("w", {8, 3, 1, 1})}, {2, 8, 16, 16})}));
  // 2 x 16 x 16 rows of three 4-byte numbers.
  CHECK(collectives_of(tensor_parallel(graph, {2}), Phase::forward) == Counts{{"all-reduce 6144", 1}});
}

TEST_CASE("heads that ranks cannot share are gathered, and attention is whole") {
  const auto parallel = ranks_of("gpt2:layers=1,hidden=48,heads=3,seq=16,batch=1,positions=16", 2);
  CHECK(signature(parallel, "h.0/linear^1") == "Linear(float32[1,16,48],float32[48,72],float32[72])->float32[1,16,72]");
  CHECK(signature(parallel, "h.0/matmul^1") == "MatMul(float32[1,3,16,16],float32[1,3,16,16])->float32[1,3,16,16]");
  CHECK(collectives_of(parallel, Phase::forward).at("all-gather 3072") == 4);  // query, key, value and the last product
}

TEST_CASE("what a rank reads and writes has the extents of its signature") {
  const auto count = [](const detail::SignatureTensor& tensor) {
    return static_cast<std::int64_t>(4 * tensor.count());
  };
  std::size_t compared = 0;
  for (const char* network :
       {"gpt2:layers=2,vocabulary=49152", "bert_base:layers=2,vocabulary=30720", "resnet50:batch=4", "vgg16:batch=4",
        "llama2_7b:layers=2,batch=1,seq=256", "transformer:layers=2,batch=8"})
    for (const auto& [granularity, sequence] :
         {std::pair{Granularity::op, false}, std::pair{Granularity::fine, false}, std::pair{Granularity::op, true}}) {
      const Graph whole = training_graph(make_network(network), {.granularity = granularity});
      const auto parallel = tensor_parallel(whole, {.ranks = 4, .sequence = sequence});
      for (const OpId op : parallel.graph.ops()) {
        const OpId from = parallel.original[op];
        if (parallel.graph.type(op) != whole.type(from)) continue;  // an op of a collective
        const auto before = detail::parse_signature(whole.signature(from));
        const auto after = detail::parse_signature(parallel.graph.signature(op));
        const auto outputs = whole.outputs(from);
        const auto made = parallel.graph.outputs(op);
        if (!before || !after || before->write_count != outputs.size() || made.size() != outputs.size()) continue;
        std::size_t i = 0;
        for (const TensorId tensor : outputs) {
          const TensorId part{(*made.begin()).index() + i};
          if (i < 4 && whole.bytes(tensor).count == count(before->writes[i])) {
            const std::string name{parallel.graph.name(op)};
            CAPTURE(name);
            ++compared;
            CHECK(parallel.graph.bytes(part).count == count(after->writes[i]));
          }
          ++i;
        }
      }
    }
  CHECK(compared > 5000);
}

TEST_CASE("one rank is the graph itself, and a graph without signatures is whole on each") {
  const Graph lenet = training_graph(make_network("lenet"));
  CHECK(tensor_parallel(lenet, {1}).graph == lenet);
  GraphBuilder builder{"plain"};
  builder.add({.name = "a", .type = "Linear", .parameter_bytes = Bytes{8}, .outputs = {{"t", Bytes{4}}}});
  builder.add({.name = "b", .type = "Relu", .inputs = {"t"}});
  const auto parallel = tensor_parallel(std::move(builder).build(), {2});
  CHECK(parallel.collectives.empty());
  CHECK(parallel.graph.op_count() == 4);
  CHECK_FALSE(shares_parameters(lenet, {11}));  // 6, 16, 120, 84 and 10 features
  CHECK(shares_parameters(lenet, {2}));
}

TEST_CASE("the first rank alone has the ops, times and bytes that it has among all, and an op for each collective") {
  const Graph whole = training_graph(make_network("gpt2:layers=2,batch=2,seq=128"));
  const auto all = tensor_parallel(whole, {4}), alone = first_tensor_rank(whole, {4});
  CHECK(alone.collectives.size() == all.collectives.size());
  CHECK(alone.graph.op_count() == whole.op_count() + alone.collectives.size());
  for (const OpId op : whole.ops()) {
    const OpId one = op_named(alone.graph, rank_name(whole.name(op), 0));
    const OpId same = op_named(all.graph, rank_name(whole.name(op), 0));
    CHECK(alone.graph.signature(one) == all.graph.signature(same));
    CHECK(alone.graph.parameter_bytes(one) == all.graph.parameter_bytes(same));
    CHECK(alone.graph.bytes_accessed(one) == all.graph.bytes_accessed(same));
  }
}

TEST_CASE("the rank of a name is what follows its last mark") {
  CHECK(rank_name("conv", 1) == "conv^2");
  CHECK(tensor_rank("conv^2") == 1);
  CHECK(tensor_rank("conv") == 0);
  CHECK(tensor_rank("a^b") == 0);
  CHECK(tensor_rank("") == 0);
}
