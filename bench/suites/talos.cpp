// Talos: several networks at once, and the sum of their completion times.
#include "suite.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard::bench {

int run_talos(const SuiteOptions&, std::ostream& out) {
  out << "Talos: not built: this build has no placer for several networks at once.\n";
  return 4;
}

}  // namespace trainyard::bench
