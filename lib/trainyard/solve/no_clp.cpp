#include "trainyard/core/error.hpp"
#include "trainyard/solve/linear_program.hpp"

// Replaces clp.cpp if the build has no Clp.
namespace trainyard {

bool has_clp() { return false; }

LinearSolution solve_by_clp(const LinearProgram&, const std::function<bool()>&) {
  throw MissingError("this build has no Clp", "install coinor-libclp-dev, and build again with -Dclp=enabled");
}

}  // namespace trainyard
