#pragma once

#include <cstddef>
#include <memory>

#include "profiler/run/cuda/errors.hpp"

namespace trainyard::cuda {

/// Deleter that returns a handle to its library, after `first` (such as a synchronization) if given.
struct GiveBack {
  Status (*destroy)(void*) = nullptr;
  Status (*first)(void*) = nullptr;
  void operator()(void* handle) const {
    if (first) first(handle);
    destroy(handle);
  }
};
/// A handle or memory of a library: a stream, an event, a graph, a context. Released at the end of its life, whichever
/// GPU is then current. Handles are declared after those that they work on: streams after events and memory.
using Owned = std::unique_ptr<void, GiveBack>;

/// A stream other than the GPU's default one. Destroying it waits for its work.
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
/// Page-locked memory of the host, so that copies are asynchronous to the host.
inline Owned pinned_memory(const Runtime& cuda, std::size_t bytes, unsigned flags = 0) {
  void* memory = nullptr;
  check(cuda, cuda.cudaHostAlloc(&memory, bytes, flags), "cudaHostAlloc");
  return {memory, {cuda.cudaFreeHost}};
}

}  // namespace trainyard::cuda
