#include "profiler/kernels/cuda/dnn_pool.hpp"

#include <cassert>
#include <utility>

namespace trainyard::cuda {

bool DnnPool::there(const Dnn& dnn) {
  return dnn.cudnnCreatePoolingDescriptor && dnn.cudnnDestroyPoolingDescriptor && dnn.cudnnSetPooling2dDescriptor &&
         dnn.cudnnPoolingForward && dnn.cudnnPoolingBackward;
}

std::unique_ptr<DnnPool> DnnPool::make(const Tables& tables, void* handle) {
  if (!there(tables.dnn)) return nullptr;
  return std::unique_ptr<DnnPool>{new DnnPool(tables, handle)};
}

const DnnPool::Descriptors& DnnPool::prepared(const PoolShape& s) {
  Descriptors& made = prepared_[s];
  if (made.pool) return made;
  made.x = tensor(s.short_ones, s.n, s.c, s.h, s.w);
  made.y = tensor(s.short_ones, s.n, s.c, s.out_h, s.out_w);
  void* descriptor = nullptr;
  check(dnn_.cudnnCreatePoolingDescriptor(&descriptor), "cudnnCreatePoolingDescriptor");
  Owned pool{descriptor, {dnn_.cudnnDestroyPoolingDescriptor}};
  check(dnn_.cudnnSetPooling2dDescriptor(descriptor, s.mode, kDnnNoNan, s.r, s.s, s.pad_h, s.pad_w, s.stride_h,
                                         s.stride_w),
        "cudnnSetPooling2dDescriptor");
  made.pool = std::move(pool);
  return made;
}

bool DnnPool::forward(const PoolShape& shape, const void* x, void* y) {
  if (!shape.symmetric()) return false;
  const auto& [x_shape, y_shape, pool] = prepared(shape);
  const float one = 1, zero = 0;
  return done(dnn_.cudnnPoolingForward(handle_, pool.get(), &one, x_shape.get(), x, &zero, y_shape.get(), y),
              "cudnnPoolingForward");
}

bool DnnPool::average_backward(const PoolShape& shape, const void* dy, void* dx) {
  assert(shape.mode != kDnnMaxPool);
  if (!shape.symmetric()) return false;
  const auto& [x_shape, y_shape, pool] = prepared(shape);
  const float one = 1, zero = 0;
  return done(dnn_.cudnnPoolingBackward(handle_, pool.get(), &one, y_shape.get(), dy, y_shape.get(), dy, x_shape.get(),
                                        dx, &zero, x_shape.get(), dx),
              "cudnnPoolingBackward");
}

}  // namespace trainyard::cuda
