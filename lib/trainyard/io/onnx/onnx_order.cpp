#include "trainyard/io/onnx/onnx_order.hpp"

#include <algorithm>

#include "trainyard/graph/topological_order.hpp"

namespace trainyard::onnx {

namespace {

/// The operator that makes each value; the number of operators if none does.
std::vector<std::size_t> producers(const Links& links) {
  std::vector<std::size_t> producer(links.value_count, links.makes.size());
  for (std::size_t i = 0; i < links.makes.size(); ++i) {
    for (const ValueId id : links.makes[i])
      if (!id.is_none()) producer[id.index()] = i;
  }
  return producer;
}

}  // namespace

std::vector<std::size_t> dependency_order(const Links& links) {
  const std::size_t count = links.reads.size();
  const std::vector<std::size_t> producer = producers(links);
  std::vector<std::vector<std::size_t>> readers(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const ValueId id : links.reads[i]) {
      if (id.is_none() || producer[id.index()] == count) continue;
      readers[producer[id.index()]].push_back(i);
    }
  }
  return topological_order<std::size_t>(count, successors_in(readers));
}

std::vector<std::size_t> find_cycle(const Links& links, const std::vector<std::size_t>& order) {
  const std::size_t count = links.reads.size();
  const std::vector<std::size_t> producer = producers(links);
  std::vector<bool> waits(count, true), seen(count, false);
  for (const std::size_t done : order) waits[done] = false;
  // Each waiting operator reads a value of a waiting one, so following these reads must return to an earlier operator.
  auto at = static_cast<std::size_t>(std::find(waits.begin(), waits.end(), true) - waits.begin());
  std::vector<std::size_t> path;
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    for (const ValueId id : links.reads[at]) {
      if (id.is_none() || producer[id.index()] == count || !waits[producer[id.index()]]) continue;
      at = producer[id.index()];
      break;
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace trainyard::onnx
