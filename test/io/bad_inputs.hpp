#pragma once

#include <span>
#include <string>
#include <vector>

namespace trainyard::test {

enum class InputKind { graph, cluster, schedule };

/// An input that must be refused, and what its first finding must contain.
struct BadInput {
  const char* name;  // a sentence
  InputKind kind;
  std::string text;
  const char* code;
  int line;
  std::vector<const char*> words;  // each is in the message or the help
};

std::span<const BadInput> bad_inputs();

/// The problem of the bad schedules: ops a -> b -> c with tensors a.out (100 bytes) and b.out (200 bytes), each 1000 ns
/// on a GPU, on the devices gpu0 and gpu1 joined by a link.
extern const char* const kToyGraph;
extern const char* const kToyCluster;

}  // namespace trainyard::test
