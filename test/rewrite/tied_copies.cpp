#include "trainyard/rewrite/tied_copies.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "by_name.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::op_named;

namespace {

/// An embedding of 40 bytes with 80 of state, and a head that reads it too. If `twice`, another lookup beside the head
/// adds a second term to the gradient.
Graph tied(bool twice = false) {
  GraphBuilder builder{"tied"};
  const auto add = [&](OpSpec op) {
    op.colocate = "w";
    builder.add(op);
  };
  const auto back = Phase::backward;
  add({.name = "embed",
       .layer = "e",
       .parameter_bytes = Bytes{40},
       .state_bytes = Bytes{80},
       .outputs = {{"x", Bytes{8}}}});
  if (twice) add({.name = "again", .layer = "h", .inputs = {"x"}, .outputs = {{"x2", Bytes{8}}}});
  add({.name = "head", .layer = "h", .inputs = {twice ? "x2" : "x"}, .outputs = {{"y", Bytes{8}}}});
  add({.name = "head/grad",
       .phase = back,
       .layer = "h",
       .inputs = {"y"},
       .outputs = {{"dx", Bytes{8}}, {"dh", Bytes{40}}}});
  if (twice) add({.name = "again/grad", .phase = back, .inputs = {"dx"}, .outputs = {{"da", Bytes{40}}}});
  add({.name = "embed/grad", .phase = back, .layer = "e", .inputs = {"dx"}, .outputs = {{"de", Bytes{40}}}});
  add({.name = "sum", .type = "AddGrad", .phase = back, .inputs = {"dh", "de"}, .outputs = {{"g1", Bytes{40}}}});
  if (twice)
    add({.name = "sum2", .type = "AddGrad", .phase = back, .inputs = {"g1", "da"}, .outputs = {{"g", Bytes{40}}}});
  add({.name = "update", .phase = Phase::update, .inputs = {twice ? "g" : "g1"}});
  return std::move(builder).build();
}

std::string refusal(const TiedCopies& copies) {
  return test::refusal_of([&] { tie_copies(tied(), copies); });
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a head has a copy of the embedding, and both are updated by the sum of what both have made") {
  const TiedCopiesGraph made = tie_copies(tied(), {{{"head", "head/grad"}}});
  const Graph& graph = made.graph;
  CHECK(graph.op_count() == 6 + 2);
  const OpId head = op_named(graph, "head");
  CHECK(graph.colocation_group(head) == "w/copy-1");
  CHECK(graph.colocation_group(op_named(graph, "head/grad")) == "w/copy-1");
  CHECK(graph.parameter_bytes(head) == Bytes{40});
  CHECK(graph.state_bytes(head) == Bytes{80});
  CHECK(graph.parameter_bytes(op_named(graph, "embed")) == Bytes{40});
  // Both copies add in one order, so that they stay equal.
  CHECK(inputs_of(graph, "sum") == Names{"de", "dh"});
  CHECK(inputs_of(graph, "sum/copy-1") == Names{"de", "dh"});
  CHECK(graph.phase(op_named(graph, "sum")) == Phase::update);
  CHECK(graph.bytes_accessed(op_named(graph, "sum")) == Bytes{3 * 40});
  CHECK(inputs_of(graph, "update") == Names{"g1"});
  CHECK(inputs_of(graph, "update/copy-1") == Names{"g1/copy-1"});
  CHECK(graph.colocation_group(op_named(graph, "update/copy-1")) == "w/copy-1");
  CHECK(made.original[op_named(graph, "update/copy-1")] == op_named(tied(), "head"));
}

TEST_CASE("terms that one copy makes are added there, in the backward pass") {
  const Graph graph = tie_copies(tied(true), {{{"again", "head", "head/grad", "again/grad"}}}).graph;
  // dh and da belong to the copy: (dh + de) + da becomes de + (dh + da).
  CHECK(inputs_of(graph, "sum2/own-1") == Names{"dh", "da"});
  CHECK(graph.phase(op_named(graph, "sum2/own-1")) == Phase::backward);
  CHECK(inputs_of(graph, "sum2") == Names{"de", "sum2/own-1"});
  CHECK(inputs_of(graph, "sum2/copy-1") == Names{"de", "sum2/own-1"});
  CHECK(graph.parameter_bytes(op_named(graph, "again")) == Bytes{40});
  CHECK(graph.parameter_bytes(op_named(graph, "head")) == Bytes{0});
  CHECK_FALSE(graph.find_op("sum"));
  // Two copies, each with one term.
  const Graph two = tie_copies(tied(true), {{{"again", "again/grad"}, {"head", "head/grad"}}}).graph;
  CHECK(inputs_of(two, "sum2") == Names{"de", "da", "dh"});
  CHECK(inputs_of(two, "sum2/copy-2") == Names{"de", "da", "dh"});
  CHECK(two.bytes_accessed(op_named(two, "sum2")) == Bytes{4 * 40});
}

TEST_CASE("copies send each other their sums once a step, and replicas share them alike") {
  const std::vector<Rewrite> parts{TiedCopies{{{"head", "head/grad"}}}, Microbatch{4}};
  const Graph graph = apply_rewrites(tied(), parts);
  CHECK(inputs_of(graph, "sum") == Names{"de/accumulate~4", "dh/accumulate~4"});
  CHECK(inputs_of(graph, "sum/copy-1") == Names{"de/accumulate~4", "dh/accumulate~4"});
  // Each replica adds both gradients on the devices that produce them. With ZeRO 1 a replica adds half of each and
  // updates that half.
  const std::vector<Rewrite> whole{TiedCopies{{{"head", "head/grad"}}},
                                   Replicate{.replicas = 2, .collective = Collective::ring}};
  const Graph all = apply_rewrites(tied(), whole);
  CHECK(inputs_of(all, "sum/copy-1@2") == Names{"de/sum@2", "dh/sum@2"});
  CHECK(all.colocation_group(all.producer(all.inputs(op_named(all, "sum@1"))[1])) == "w/copy-1@1");
  const std::vector<Rewrite> shares{TiedCopies{{{"head", "head/grad"}}},
                                    Replicate{.replicas = 2, .collective = Collective::whole, .zero = 1}};
  const Graph half = apply_rewrites(tied(), shares);
  const OpId sum = op_named(half, "sum/copy-1@2");
  CHECK(half.bytes(half.inputs(sum)[0]) == Bytes{20});
  CHECK(half.bytes(*half.outputs(sum).begin()) == Bytes{20});
  CHECK(half.bytes_accessed(sum) == Bytes{60});
  CHECK(half.state_bytes(op_named(half, "head@1")) == Bytes{40});
}

TEST_CASE("copies are found where a group's ops are in several places") {
  const Graph graph = tied();
  IdMap<OpId, std::size_t> place(graph.op_count(), 0);
  CHECK(copies_by_place(graph, place).copies.empty());
  for (const char* name : {"head", "head/grad"}) place[op_named(graph, name)] = 3;
  CHECK(copies_by_place(graph, place) == TiedCopies{{{"head", "head/grad"}}});
  // BERT's head also holds a bias, 4 bytes for each of 30,522 words, which moves with the copy.
  const Graph bert = training_graph(make_network("bert_base:layers=1"));
  place.assign(bert.op_count(), 0);
  for (const OpId op : bert.ops()) place[op] = bert.layer(op) == "head" ? 1 : 0;
  const TiedCopies head = copies_by_place(bert, place);
  CHECK(head == TiedCopies{{{"head/linear_2", "head/linear_2/grad"}}});
  const Graph copied = tie_copies(bert, head).graph;
  CHECK(copied.parameter_bytes(op_named(copied, "head/linear_2")) == Bytes{4 * 30'522 * (768 + 1)});
  CHECK(copied.colocation_group(op_named(copied, "head/bias/update")) == "embedding/words/copy-1");
  CHECK(inputs_of(copied, "embedding/words/update/copy-1") == Names{"embedding/words.grad#2/copy-1"});
  // T5: encoder, decoder and head share one embedding.
  const Graph t5 = training_graph(make_network("t5_small:layers=1"));
  IdMap<OpId, std::size_t> layers;
  std::vector<std::string> names;
  for (const OpId op : t5.ops()) {
    const auto at = std::ranges::find(names, t5.layer(op));
    layers.push_back(static_cast<std::size_t>(at - names.begin()));
    if (at == names.end()) names.push_back(t5.layer(op));
  }
  CHECK(copies_by_place(t5, layers).copies.size() == 1);
}

TEST_CASE("copies that cannot be are refused by name") {
  CHECK(refusal({{{"heads"}}}) == "unknown-op: no op is named 'heads'");
  CHECK(refusal({{{"head", "update"}}}) == "tied: op 'update' is an update");
  CHECK(refusal({{{"embed"}}}) == "tied: every op that holds parameters of group 'w' reads a copy");
  CHECK(refusal({{{"head"}, {"head"}}}) == "tied: op 'head' is listed for two copies");
  CHECK(refusal({{{"head/grad"}}}) == "tied: copy 1 has no op of the forward pass");
}

TEST_CASE("places are of each op") {
  const Graph graph = training_graph(make_network("lenet:batch=4"));
  CHECK_THROWS_AS(copies_by_place(graph, {}), InputError);
  CHECK_THROWS_AS(places_of_groups(graph, {}), InputError);
}
