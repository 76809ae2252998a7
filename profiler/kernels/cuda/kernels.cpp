#include "profiler/kernels/cuda/kernels.hpp"

#include <zlib.h>

#include <cassert>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "profiler/kernels/cuda/embedded_kernels.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::cuda {

extern const std::string_view kKernelText;   // the .cu files, by embed.py
extern const std::string_view kKernelNames;  // one per line

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

namespace {

std::string inflated(std::string_view packed, std::size_t size) {
  std::string code(size, '\0');
  uLongf length = size;
  const int status = uncompress(reinterpret_cast<Bytef*>(code.data()), &length,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  assert(status == Z_OK && length == size);
  static_cast<void>(status);
  return code;
}

std::string made_code(const Nvrtc& nvrtc, const std::string& architecture) {
  for (const EmbeddedKernels& each : embedded_kernels())
    if (each.architecture == architecture) return inflated(each.packed, each.size);
  if (!nvrtc.nvrtcCreateProgram)
    throw MissingError("NVRTC was not found, and this program was built without kernels for " + architecture,
                       "install the CUDA 13 toolkit");
  return compile_kernels(nvrtc, architecture);
}

}  // namespace

const std::string& kernel_code(const Nvrtc& nvrtc, const std::string& architecture) {
  static std::mutex mutex;
  static std::map<std::string, std::string> made;  // references to entries stay valid
  const std::scoped_lock lock{mutex};
  auto known = made.find(architecture);
  if (known == made.end()) known = made.emplace(architecture, made_code(nvrtc, architecture)).first;
  return known->second;
}

std::vector<std::string> embedded_architectures() {
  std::vector<std::string> names;
  for (const EmbeddedKernels& each : embedded_kernels()) names.emplace_back(each.architecture);
  return names;
}

Owned load_kernels(const Tables& tables, int gpu) {
  const Runtime& cuda = tables.runtime;
  check(cuda, cuda.cudaSetDevice(gpu), "cudaSetDevice");
  int major = 0, minor = 0;
  check(cuda, cuda.cudaDeviceGetAttribute(&major, capability_major, gpu), "cudaDeviceGetAttribute");
  check(cuda, cuda.cudaDeviceGetAttribute(&minor, capability_minor, gpu), "cudaDeviceGetAttribute");
  const std::string& code = kernel_code(tables.nvrtc, "sm_" + std::to_string(major) + std::to_string(minor));
  void* library = nullptr;
  check(tables.driver, tables.driver.cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");
  return {library, {tables.driver.cuLibraryUnload}};
}

}  // namespace trainyard::cuda
