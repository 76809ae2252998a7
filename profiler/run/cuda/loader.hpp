#pragma once

#include <memory>
#include <string>
#include <vector>

#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

/// A library that was found, or why not.
struct LibraryState {
  std::string name;     // "driver", "cudart", "cublas", "cudnn", "cupti", "nvrtc", "nvml"
  std::string file;     // what it was loaded from; empty: not found
  std::string version;  // as it says itself; empty: not known
  std::string problem;  // one sentence; empty: it can be used
  std::string help;     // what would mend it
  bool required = false;

  bool usable() const { return problem.empty(); }
};

/// A source of libraries; tests give one of their own.
class LibrarySource {
 public:
  virtual ~LibrarySource() = default;
  /// Paths by which a library of one of these names may be found, in the order to try.
  virtual std::vector<std::string> paths(const std::vector<std::string>& files) = 0;
  /// A handle; null where it cannot be loaded.
  virtual void* open(const std::string& path) = 0;
  virtual void* symbol(void* library, const char* name) = 0;
};

/// dlopen: by the system's search path, then in the folders of $TRAINYARD_CUDA_LIBRARIES (a list with colons), in
/// toolkits ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda), and in wheels (nvidia/*/lib of $VIRTUAL_ENV, $CONDA_PREFIX,
/// ~/.local, /usr/local and /usr). Libraries stay loaded until the program ends.
std::unique_ptr<LibrarySource> system_libraries();

/// Before the driver is loaded: 32 hardware queues, so that unrelated streams do not wait for each other, and launch
/// queues four times as long (CUDA_DEVICE_MAX_CONNECTIONS, CUDA_SCALE_LAUNCH_QUEUES), unless the environment says
/// otherwise.
void widen_queues();
/// Entries that a stream's launch queue holds: about 1,024, times CUDA_SCALE_LAUNCH_QUEUES.
std::size_t launch_queue_entries();

/// Fills the tables with what there is, and says of each library how it stands: missing, too old or too new (another
/// major version than the declarations in api.hpp), lacking a function, or in order. Never throws.
std::vector<LibraryState> load(Tables& tables, LibrarySource& source);

/// Throws MissingError for the first required library that cannot be used, in its sentence: driver, runtime; and with
/// "no NVIDIA GPU" where everything is there but a GPU. Calls cudaGetDeviceCount, whose own message for a missing
/// driver ("driver version is insufficient") misleads: it is only asked once the driver is there.
/// Returns the number of GPUs.
int require_gpus(const Tables& tables, const std::vector<LibraryState>& states);

/// Throws MissingError where the library of this name cannot be used.
void require(const std::vector<LibraryState>& states, const std::string& name);

}  // namespace trainyard::cuda
