#pragma once

#include <cstddef>
#include <memory>

#include "profiler/run/cuda/errors.hpp"

namespace trainyard::cuda {

/// The function of a library that takes a handle back, after all work on it where `first` is given.
struct GiveBack {
  Status (*destroy)(void*) = nullptr;
  Status (*first)(void*) = nullptr;
  void operator()(void* handle) const {
    if (first) first(handle);
    destroy(handle);
  }
};
/// A handle, or memory, that a library gave: a stream, an event, a graph, a context. Given back at the end of its life,
/// whichever GPU is current then. Handles that work on others are declared after them: streams after events and memory.
using Owned = std::unique_ptr<void, GiveBack>;

/// A stream beside the GPU's default one. Its end waits for its work.
inline Owned owned_stream(const Runtime& cuda, Stream stream) {
  return {stream, {cuda.cudaStreamDestroy, cuda.cudaStreamSynchronize}};
}
// Handles and memory of the current GPU. Each throws CudaError.
inline Owned make_stream(const Runtime& cuda) {
  Stream stream = nullptr;
  check(cuda, cuda.cudaStreamCreateWithFlags(&stream, kNonBlocking), "cudaStreamCreateWithFlags");
  return owned_stream(cuda, stream);
}
inline Owned make_event(const Runtime& cuda, unsigned flags = 0) {
  Event event = nullptr;
  check(cuda, cuda.cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return {event, {cuda.cudaEventDestroy}};
}
inline Owned device_memory(const Runtime& cuda, std::size_t bytes) {
  void* memory = nullptr;
  check(cuda, cuda.cudaMalloc(&memory, bytes), "cudaMalloc");
  return {memory, {cuda.cudaFree}};
}
/// Memory of the host that stays where it is: copies from and to it do not wait for the host.
inline Owned pinned_memory(const Runtime& cuda, std::size_t bytes, unsigned flags = 0) {
  void* memory = nullptr;
  check(cuda, cuda.cudaHostAlloc(&memory, bytes, flags), "cudaHostAlloc");
  return {memory, {cuda.cudaFreeHost}};
}

}  // namespace trainyard::cuda
