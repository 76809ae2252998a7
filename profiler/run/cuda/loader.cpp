#include "profiler/run/cuda/loader.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "trainyard/core/error.hpp"

namespace trainyard::cuda {
namespace {

namespace fs = std::filesystem;

/// Folders below `root` that match "lib/python3*/PACKAGES/nvidia/*/lib": where wheels put NVIDIA's libraries.
void add_wheels(const fs::path& root, const char* packages, std::vector<std::string>& folders) {
  const auto entries = [](const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator each{folder, error}, end; !error && each != end; each.increment(error))
      found.push_back(each->path());
    std::ranges::sort(found);
    return found;
  };
  for (const fs::path& python : entries(root / "lib")) {
    if (!python.filename().string().starts_with("python3")) continue;
    for (const fs::path& library : entries(python / packages / "nvidia")) {
      std::error_code error;
      if (fs::is_directory(library / "lib", error)) folders.push_back((library / "lib" / "").string());
    }
  }
}

class SystemLibraries : public LibrarySource {
 public:
  std::vector<std::string> paths(const std::vector<std::string>& files) override {
    std::vector<std::string> all;
    for (const std::string& folder : folders())
      for (const std::string& file : files) all.push_back(folder + file);
    return all;
  }

  void* open(const std::string& path) override {
    // NVRTC looks for its builtins only on the system's path, not in its own folder.
    const fs::path folder = fs::path{path}.parent_path();
    std::error_code error;
    if (!folder.empty() && path.find("libnvrtc.so") != std::string::npos && fs::exists(path, error))
      for (fs::directory_iterator each{folder, error}, end; !error && each != end; each.increment(error))
        if (each->path().filename().string().starts_with("libnvrtc-builtins.so."))
          dlopen(each->path().c_str(), RTLD_NOW);
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  void* symbol(void* library, const char* name) override { return dlsym(library, name); }

 private:
  static std::vector<std::string> folders() {
    std::vector<std::string> folders{""};
    if (const char* list = std::getenv("TRAINYARD_CUDA_LIBRARIES"); list && *list)
      for (std::string_view rest{list}; !rest.empty();) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (end > 0) folders.push_back(std::string{rest.substr(0, end)} + "/");
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    const auto add_toolkit = [&](const std::string& root) {
      folders.push_back(root + "/lib64/");
      folders.push_back(root + "/extras/CUPTI/lib64/");
    };
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* value = std::getenv(variable); value && *value) add_toolkit(value);
    add_toolkit("/usr/local/cuda");
    for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
      if (const char* value = std::getenv(variable); value && *value) add_wheels(value, "site-packages", folders);
    if (const char* home = std::getenv("HOME"); home && *home)
      add_wheels(fs::path{home} / ".local", "site-packages", folders);
    for (const char* root : {"/usr/local", "/usr"})
      for (const char* packages : {"dist-packages", "site-packages"}) add_wheels(root, packages, folders);
    return folders;
  }
};

/// Looks up functions, each followed by its name, and remembers the first that is missing.
class Lookup {
 public:
  Lookup(LibrarySource& source, void* library) : source_(source), library_(library) {}

  template <class Function, class... Others>
  void operator()(Function& function, const char* name, Others&... others) {
    function = reinterpret_cast<Function>(source_.symbol(library_, name));
    if (!function && missing_.empty()) missing_ = name;
    if constexpr (sizeof...(others) > 0) (*this)(others...);
  }
  template <class Function>
  void if_there(Function& function, const char* name) {
    function = reinterpret_cast<Function>(source_.symbol(library_, name));
  }
  /// A function that has one name or another, depending on the library's version, or is absent.
  template <class Function>
  void either(Function& function, const char* name, const char* older) {
    void* found = source_.symbol(library_, name);
    function = reinterpret_cast<Function>(found ? found : source_.symbol(library_, older));
  }
  const std::string& missing() const { return missing_; }

 private:
  LibrarySource& source_;
  void* library_;
  std::string missing_;
};

/// A function of a table, and its name.
#define SYMBOL(function) table.function, #function

void fill(Driver& table, Lookup& get) {
  get(SYMBOL(cuInit), SYMBOL(cuDriverGetVersion), SYMBOL(cuGetErrorString), SYMBOL(cuDeviceGet),
      SYMBOL(cuDeviceGetName), SYMBOL(cuDeviceGetDevResource), SYMBOL(cuDevSmResourceSplitByCount),
      SYMBOL(cuDevResourceGenerateDesc), SYMBOL(cuGreenCtxCreate), SYMBOL(cuGreenCtxDestroy),
      SYMBOL(cuGreenCtxStreamCreate), SYMBOL(cuLibraryLoadData), SYMBOL(cuLibraryUnload), SYMBOL(cuLibraryGetKernel),
      SYMBOL(cuLaunchKernel), SYMBOL(cuStreamWaitValue32_v2), SYMBOL(cuStreamWriteValue32_v2));
}

void fill(Runtime& table, Lookup& get) {
  get(SYMBOL(cudaRuntimeGetVersion), SYMBOL(cudaGetDeviceCount), SYMBOL(cudaGetErrorString), SYMBOL(cudaSetDevice),
      SYMBOL(cudaDeviceGetAttribute), SYMBOL(cudaDeviceSynchronize), SYMBOL(cudaStreamCreateWithFlags),
      SYMBOL(cudaStreamDestroy), SYMBOL(cudaStreamSynchronize), SYMBOL(cudaStreamWaitEvent),
      SYMBOL(cudaEventCreateWithFlags), SYMBOL(cudaEventDestroy), SYMBOL(cudaEventRecord),
      SYMBOL(cudaEventRecordWithFlags), SYMBOL(cudaEventElapsedTime), SYMBOL(cudaStreamBeginCapture),
      SYMBOL(cudaStreamEndCapture), SYMBOL(cudaGraphInstantiate), SYMBOL(cudaGraphLaunch), SYMBOL(cudaGraphExecDestroy),
      SYMBOL(cudaGraphDestroy), SYMBOL(cudaMalloc), SYMBOL(cudaFree), SYMBOL(cudaHostAlloc), SYMBOL(cudaFreeHost),
      SYMBOL(cudaHostGetDevicePointer), SYMBOL(cudaMemGetInfo), SYMBOL(cudaMemsetAsync), SYMBOL(cudaMemcpyAsync),
      SYMBOL(cudaMemcpyPeerAsync), SYMBOL(cudaDeviceCanAccessPeer), SYMBOL(cudaDeviceEnablePeerAccess));
}

void fill(Blas& table, Lookup& get) {
  get(SYMBOL(cublasCreate_v2), SYMBOL(cublasDestroy_v2), SYMBOL(cublasSetStream_v2), SYMBOL(cublasSetWorkspace_v2),
      SYMBOL(cublasGetVersion_v2), SYMBOL(cublasSetSmCountTarget), SYMBOL(cublasSgemm_v2), SYMBOL(cublasGemmEx),
      SYMBOL(cublasGemmStridedBatchedEx));
}

void fill(Dnn& table, Lookup& get) {
  get(SYMBOL(cudnnGetVersion), SYMBOL(cudnnCreate), SYMBOL(cudnnDestroy), SYMBOL(cudnnSetStream),
      SYMBOL(cudnnGetErrorString), SYMBOL(cudnnCreateTensorDescriptor), SYMBOL(cudnnDestroyTensorDescriptor),
      SYMBOL(cudnnSetTensor4dDescriptor), SYMBOL(cudnnCreateFilterDescriptor), SYMBOL(cudnnDestroyFilterDescriptor),
      SYMBOL(cudnnSetFilter4dDescriptor), SYMBOL(cudnnCreateConvolutionDescriptor),
      SYMBOL(cudnnDestroyConvolutionDescriptor), SYMBOL(cudnnSetConvolution2dDescriptor),
      SYMBOL(cudnnSetConvolutionGroupCount), SYMBOL(cudnnSetConvolutionMathType),
      SYMBOL(cudnnGetConvolutionForwardAlgorithm_v7), SYMBOL(cudnnGetConvolutionBackwardDataAlgorithm_v7),
      SYMBOL(cudnnGetConvolutionBackwardFilterAlgorithm_v7), SYMBOL(cudnnConvolutionForward),
      SYMBOL(cudnnConvolutionBackwardData), SYMBOL(cudnnConvolutionBackwardFilter));
  get.if_there(SYMBOL(cudnnBatchNormalizationForwardTraining));
  get.if_there(SYMBOL(cudnnBatchNormalizationBackward));
  get.if_there(SYMBOL(cudnnSoftmaxForward));
  get.if_there(SYMBOL(cudnnSoftmaxBackward));
  get.if_there(SYMBOL(cudnnCreatePoolingDescriptor));
  get.if_there(SYMBOL(cudnnDestroyPoolingDescriptor));
  get.if_there(SYMBOL(cudnnSetPooling2dDescriptor));
  get.if_there(SYMBOL(cudnnPoolingForward));
  get.if_there(SYMBOL(cudnnPoolingBackward));
}

void fill(Cupti& table, Lookup& get) {
  get(SYMBOL(cuptiGetVersion), SYMBOL(cuptiGetResultString), SYMBOL(cuptiActivityEnable), SYMBOL(cuptiActivityDisable),
      SYMBOL(cuptiActivityRegisterCallbacks), SYMBOL(cuptiActivityGetNextRecord),
      SYMBOL(cuptiActivityGetNumDroppedRecords), SYMBOL(cuptiActivityFlushAll),
      SYMBOL(cuptiActivityPushExternalCorrelationId), SYMBOL(cuptiActivityPopExternalCorrelationId));
}

void fill(Nvrtc& table, Lookup& get) {
  get(SYMBOL(nvrtcVersion), SYMBOL(nvrtcGetErrorString), SYMBOL(nvrtcCreateProgram), SYMBOL(nvrtcDestroyProgram),
      SYMBOL(nvrtcCompileProgram), SYMBOL(nvrtcGetProgramLogSize), SYMBOL(nvrtcGetProgramLog),
      SYMBOL(nvrtcGetCUBINSize), SYMBOL(nvrtcGetCUBIN));
}

void fill(Nvml& table, Lookup& get) {
  get(SYMBOL(nvmlInit_v2), SYMBOL(nvmlShutdown), SYMBOL(nvmlDeviceGetHandleByIndex_v2), SYMBOL(nvmlDeviceGetClockInfo),
      SYMBOL(nvmlDeviceGetPowerUsage), SYMBOL(nvmlSystemGetDriverVersion), SYMBOL(nvmlDeviceGetCount_v2),
      SYMBOL(nvmlDeviceGetName), SYMBOL(nvmlDeviceGetMemoryInfo), SYMBOL(nvmlDeviceGetPciInfo_v3),
      SYMBOL(nvmlDeviceGetMaxPcieLinkGeneration), SYMBOL(nvmlDeviceGetMaxPcieLinkWidth),
      SYMBOL(nvmlDeviceGetTopologyCommonAncestor), SYMBOL(nvmlDeviceGetNvLinkState), SYMBOL(nvmlDeviceGetNvLinkVersion),
      SYMBOL(nvmlDeviceGetNvLinkRemoteDeviceType), SYMBOL(nvmlDeviceGetNvLinkRemotePciInfo_v2));
  get.either(table.nvmlDeviceGetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons",
             "nvmlDeviceGetCurrentClocksThrottleReasons");
}

#undef SYMBOL

/// Fixed facts about a library.
struct Wanted {
  const char* name;
  std::vector<std::string> files;
  const char* missing;
  const char* help;
  bool required;
};

/// Formats a version of cudart or the driver: "13.0" for 13000.
std::string dotted(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

/// Loads one library into its table. `check` sets the state's version, and its problem if the version is wrong. The
/// first usable one of several files is taken. If there is none, the state of the first one is returned.
template <class Table, class Check>
LibraryState load_one(const Wanted& wanted, Table& table, LibrarySource& source, const Check& check) {
  LibraryState first{.name = wanted.name, .required = wanted.required};
  first.problem = std::string{wanted.missing} + " (" + wanted.files.front() + ") was not found";
  first.help = wanted.help;
  for (const std::string& path : source.paths(wanted.files)) {
    void* library = source.open(path);
    if (!library) continue;
    LibraryState state{.name = wanted.name, .file = path, .required = wanted.required};
    Lookup lookup{source, library};
    fill(table, lookup);
    if (lookup.missing().empty()) {
      check(state);
    } else {
      state.problem = state.file + " lacks the function " + lookup.missing() + ": it is too old or damaged";
      state.help = wanted.help;
    }
    if (state.usable()) return state;
    table = Table{};
    if (first.file.empty()) first = std::move(state);
  }
  return first;
}

void want_version(LibraryState& state, bool asked, bool right, std::string version, const char* wanted) {
  state.version = std::move(version);
  if (!asked)
    state.problem = state.file + " does not say its version";
  else if (!right)
    state.problem = state.file + " has the version " + state.version + ", but this program needs " + wanted;
  if (!state.problem.empty()) state.help = std::string{"install version "} + wanted;
}

}  // namespace

void widen_queues() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_SCALE_LAUNCH_QUEUES", "4x", 0);
}

std::size_t launch_queue_entries() {
  constexpr double kEntries = 1'024;
  const char* scale = std::getenv("CUDA_SCALE_LAUNCH_QUEUES");
  const double factor = scale ? std::strtod(scale, nullptr) : 1;
  return static_cast<std::size_t>(kEntries * (factor >= 0.25 && factor <= 4 ? factor : 1));
}

std::unique_ptr<LibrarySource> system_libraries() { return std::make_unique<SystemLibraries>(); }

std::vector<LibraryState> load(Tables& tables, LibrarySource& source) {
  const char* toolkit = "install the CUDA 13 toolkit, or name the folders of its libraries in TRAINYARD_CUDA_LIBRARIES";
  std::vector<LibraryState> states;
  states.push_back(
      load_one({"driver", {"libcuda.so.1"}, "the NVIDIA driver", "install the NVIDIA driver (580 or later)", true},
               tables.driver, source, [&](LibraryState& state) {
                 int version = 0;
                 const Status status = tables.driver.cuDriverGetVersion(&version);
                 want_version(state, status == 0, version >= 13000, dotted(version), "CUDA 13.0 or later");
                 if (status == kStubDriver) state.problem = state.file + " is the toolkit's stub, not a driver";
               }));
  states.push_back(load_one({"cudart", {"libcudart.so.13", "libcudart.so"}, "the CUDA runtime", toolkit, true},
                            tables.runtime, source, [&](LibraryState& state) {
                              int version = 0;
                              const bool asked = tables.runtime.cudaRuntimeGetVersion(&version) == 0;
                              want_version(state, asked, version / 1000 == 13, dotted(version), "13");
                            }));
  states.push_back(load_one({"cublas", {"libcublas.so.13", "libcublas.so"}, "cuBLAS", toolkit, false}, tables.blas,
                            source, [&](LibraryState& state) { state.version = "13"; }));
  states.push_back(load_one({"cudnn", {"libcudnn.so.9"}, "cuDNN", "install cuDNN 9 for CUDA 13", false}, tables.dnn,
                            source, [&](LibraryState& state) {
                              const std::size_t version = tables.dnn.cudnnGetVersion();
                              const std::string text = std::to_string(version / 10000) + "." +
                                                       std::to_string(version % 10000 / 100) + "." +
                                                       std::to_string(version % 100);
                              want_version(state, true, version / 10000 == 9, text, "9");
                            }));
  states.push_back(load_one({"cupti", {"libcupti.so.13", "libcupti.so"}, "CUPTI", toolkit, false}, tables.cupti, source,
                            [&](LibraryState& state) {
                              std::uint32_t version = 0;
                              const bool asked = tables.cupti.cuptiGetVersion(&version) == 0;
                              want_version(state, asked, version / 10000 == 13, std::to_string(version), "13");
                            }));
  states.push_back(load_one({"nvrtc", {"libnvrtc.so.13", "libnvrtc.so"}, "NVRTC", toolkit, false}, tables.nvrtc, source,
                            [&](LibraryState& state) {
                              int major = 0, minor = 0;
                              const bool asked = tables.nvrtc.nvrtcVersion(&major, &minor) == 0;
                              want_version(state, asked, major == 13,
                                           std::to_string(major) + "." + std::to_string(minor), "13");
                            }));
  states.push_back(
      load_one({"nvml", {"libnvidia-ml.so.1"}, "NVML", "install the NVIDIA driver, which contains it", false},
               tables.nvml, source, [](LibraryState&) {}));
  return states;
}

void require(const std::vector<LibraryState>& states, const std::string& name) {
  const auto state = std::ranges::find(states, name, &LibraryState::name);
  if (state != states.end() && !state->usable()) throw MissingError(state->problem, state->help);
}

int require_gpus(const Tables& tables, const std::vector<LibraryState>& states) {
  for (const LibraryState& state : states)
    if (state.required) require(states, state.name);
  int count = 0;
  const Status status = tables.runtime.cudaGetDeviceCount(&count);
  if (status == kStubDriver)
    throw MissingError("libcuda.so.1 is the toolkit's stub, not a driver",
                       "remove the folder lib64/stubs from LD_LIBRARY_PATH");
  if (status == kOldDriver)
    throw MissingError("the NVIDIA driver is older than the CUDA runtime", "install the NVIDIA driver 580 or later");
  if (status == kNoDevice || (status == 0 && count == 0))
    throw MissingError("this machine has no usable NVIDIA GPU",
                       "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --backend cpu, which runs everywhere");
  if (status != 0)
    throw MissingError(std::string{"the GPUs cannot be used: "} + tables.runtime.cudaGetErrorString(status),
                       "check the output of nvidia-smi");
  return count;
}

}  // namespace trainyard::cuda
