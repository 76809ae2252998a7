#pragma once

#include <stdexcept>
#include <string>

#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

/// A failed call: its name, and the library's message. `status` is the library's error code.
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& call, Status status, const char* what)
      : std::runtime_error(call + ": " + (what ? what : "unknown error") + " (" + std::to_string(status) + ")"),
        status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

/// Throws CudaError if the call failed, with the message of its library.
inline void check(const Runtime& cuda, Status status, const char* call) {
  if (status != 0) throw CudaError{call, status, cuda.cudaGetErrorString ? cuda.cudaGetErrorString(status) : nullptr};
}
inline void check(const Driver& driver, Status status, const char* call) {
  if (status == 0) return;
  const char* text = nullptr;
  if (driver.cuGetErrorString) driver.cuGetErrorString(status, &text);
  throw CudaError{call, status, text};
}

}  // namespace trainyard::cuda
