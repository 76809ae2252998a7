#include "trainyard/core/error.hpp"
#include "trainyard/place/cut/partitioners.hpp"

// Replaces metis.cpp if the build has no METIS.
namespace trainyard {

bool has_metis() { return false; }

GroupDevices partition_by_metis(const Problem&, const GroupGraph&, const PartitionerOptions&) {
  throw MissingError("this build has no METIS",
                     "install libmetis-dev, and build again with -Dmetis=enabled; 'bisection' needs no library");
}

}  // namespace trainyard
