#include "trainyard/core/error.hpp"
#include "trainyard/solve/integer_program.hpp"

// Replaces cbc.cpp if the build has no CBC.
namespace trainyard {

bool has_cbc() { return false; }

IntegerSolution solve_by_cbc(const IntegerProgram&, const IntegerOptions&) {
  throw MissingError("this build has no CBC", "install coinor-libcbc-dev, and build again with -Dcbc=enabled");
}

}  // namespace trainyard
