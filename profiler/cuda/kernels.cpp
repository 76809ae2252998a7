#include "profiler/cuda/kernels.hpp"

#include <stdexcept>
#include <string_view>
#include <vector>

namespace trainyard::cuda {

extern const std::string_view kKernelText;   // ops/kernels.cu, made by ops/embed.py
extern const std::string_view kKernelNames;  // one a line

const char* kernel_source() { return kKernelText.data(); }

std::span<const char* const> kernel_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (std::size_t from = 0, to; (to = kKernelNames.find('\n', from)) != std::string_view::npos; from = to + 1)
      list.emplace_back(kKernelNames.substr(from, to - from));
    return list;
  }();
  static const std::vector<const char*> pointers = [] {
    std::vector<const char*> list;
    for (const std::string& name : names) list.push_back(name.c_str());
    return list;
  }();
  return pointers;
}

std::string compile_kernels(const Nvrtc& nvrtc, const std::string& architecture) {
  void* program = nullptr;
  const auto check = [&](Status status, const char* call) {
    if (status != 0) throw std::runtime_error(std::string{call} + ": " + nvrtc.nvrtcGetErrorString(status));
  };
  check(nvrtc.nvrtcCreateProgram(&program, kernel_source(), "trainyard_kernels.cu", 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  struct Guard {
    const Nvrtc& nvrtc;
    void*& program;
    ~Guard() { nvrtc.nvrtcDestroyProgram(&program); }
  } guard{nvrtc, program};
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17"};
  if (const Status status = nvrtc.nvrtcCompileProgram(program, 2, options); status != 0) {
    std::size_t size = 0;
    nvrtc.nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    if (size > 0) nvrtc.nvrtcGetProgramLog(program, log.data());
    throw std::runtime_error("the kernels do not compile for " + architecture + ": " +
                             nvrtc.nvrtcGetErrorString(status) + "\n" + log);
  }
  std::size_t size = 0;
  check(nvrtc.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize");
  std::string code(size, '\0');
  check(nvrtc.nvrtcGetCUBIN(program, code.data()), "nvrtcGetCUBIN");
  return code;
}

}  // namespace trainyard::cuda
