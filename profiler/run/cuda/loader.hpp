#pragma once

#include <memory>
#include <string>
#include <vector>

#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

/// A library, or why it cannot be used.
struct LibraryState {
  std::string name;     // "driver", "cudart", "cublas", "cudnn", "cupti", "nvrtc", "nvml"
  std::string file;     // path it was loaded from; empty: not found
  std::string version;  // as the library reports; empty: unknown
  std::string problem;  // one sentence; empty: usable
  std::string help;     // remedy
  bool required = false;

  bool usable() const { return problem.empty(); }
};

/// A source of libraries; tests implement a fake one.
class LibrarySource {
 public:
  virtual ~LibrarySource() = default;
  /// Paths to try, in order, for a library with one of these file names.
  virtual std::vector<std::string> paths(const std::vector<std::string>& files) = 0;
  /// The library's handle; null if it cannot be loaded.
  virtual void* open(const std::string& path) = 0;
  virtual void* symbol(void* library, const char* name) = 0;
};

/// Loads by dlopen: from the system's search path, then from the folders of $TRAINYARD_CUDA_LIBRARIES (separated by
/// colons), toolkits ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda), and wheels (nvidia/*/lib of $VIRTUAL_ENV,
/// $CONDA_PREFIX, ~/.local, /usr/local and /usr). Libraries stay loaded until the program ends.
std::unique_ptr<LibrarySource> system_libraries();

/// Call before the driver is loaded. Sets 32 hardware queues, so that unrelated streams do not wait for each other, and
/// launch queues of four times the length (CUDA_DEVICE_MAX_CONNECTIONS, CUDA_SCALE_LAUNCH_QUEUES), unless the
/// environment has set them.
void widen_queues();
/// Capacity of a stream's launch queue in entries: about 1,024, times CUDA_SCALE_LAUNCH_QUEUES.
std::size_t launch_queue_entries();

/// Fills the tables, and reports the state of each library: missing, too old or too new (another major version than
/// declared in api.hpp), lacking a function, or usable. Never throws.
std::vector<LibraryState> load(Tables& tables, LibrarySource& source);

/// Returns the number of GPUs. Throws MissingError for the first required library (driver, runtime) that cannot be
/// used, with its problem; also if there is no GPU. Calls cudaGetDeviceCount only if the driver is loaded, since its
/// own message for a missing driver ("driver version is insufficient") misleads.
int require_gpus(const Tables& tables, const std::vector<LibraryState>& states);

/// Throws MissingError if the library of this name cannot be used.
void require(const std::vector<LibraryState>& states, const std::string& name);

}  // namespace trainyard::cuda
