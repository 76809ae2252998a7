#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

Folded folded(const std::vector<Rewrite>& rewrites) {
  Folded all;
  for (const Rewrite& rewrite : rewrites) {
    if (const auto* replicate = std::get_if<Replicate>(&rewrite); replicate && replicate->fold > 0) {
      all.devices *= replicate->replicas;
      all.made *= replicate->classes.size();
    }
    if (const auto* parallel = std::get_if<TensorParallel>(&rewrite); parallel && parallel->fold > 0)
      all.devices *= parallel->ranks;
  }
  return all;
}

}  // namespace trainyard
