#include "trainyard/core/error.hpp"
#include "trainyard/place/cut/partitioners.hpp"

// Replaces scotch.cpp if the build has no SCOTCH.
namespace trainyard {

bool has_scotch() { return false; }

GroupDevices partition_by_scotch(const Problem&, const GroupGraph&, const PartitionerOptions&) {
  throw MissingError("this build has no SCOTCH",
                     "install libscotch-dev, and build again with -Dscotch=enabled; 'bisection' needs no library");
}

}  // namespace trainyard
