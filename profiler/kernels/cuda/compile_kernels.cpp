// Compiles the kernels for one architecture at build time: compile-kernels ARCHITECTURE OUTPUT. If NVRTC cannot, the
// output is empty and the reason is printed.
#include <exception>
#include <fstream>
#include <iostream>

#include "profiler/kernels/cuda/kernels.hpp"
#include "profiler/run/cuda/loader.hpp"

int main(int count, char** arguments) {
  using namespace trainyard::cuda;
  if (count != 3) return 2;
  std::ofstream out{arguments[2], std::ios::binary};
  try {
    Tables tables;
    const auto source = system_libraries();
    const auto states = load(tables, *source);
    require(states, "nvrtc");
    out << compile_kernels(tables.nvrtc, arguments[1]);
  } catch (const std::exception& error) {
    std::cerr << "cannot compile the kernels for " << arguments[1] << ": " << error.what() << '\n';
  }
  return out.flush() ? 0 : 1;
}
