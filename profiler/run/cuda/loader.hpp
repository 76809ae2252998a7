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
  /// A handle of the first of these files that can be loaded, and its path; null where there is none.
  virtual void* open(const std::vector<std::string>& files, std::string& path) = 0;
  virtual void* symbol(void* library, const char* name) = 0;
};

/// dlopen: by the system's search path, then in $TRAINYARD_CUDA_LIBRARIES, $CUDA_HOME/lib64, $CUDA_PATH/lib64 and
/// /usr/local/cuda/lib64. Libraries stay loaded until the program ends.
std::unique_ptr<LibrarySource> system_libraries();

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
