#include "profiler/kernels/cuda/dnn_batch_norm.hpp"

namespace trainyard::cuda {

std::unique_ptr<DnnBatchNorm> DnnBatchNorm::make(const Tables& tables, void* handle) {
  if (!tables.dnn.cudnnBatchNormalizationForwardTraining || !tables.dnn.cudnnBatchNormalizationBackward) return nullptr;
  return std::unique_ptr<DnnBatchNorm>{new DnnBatchNorm(tables, handle)};
}

void DnnBatchNorm::check(Status status, const char* call) const {
  if (status != 0) throw CudaError{call, status, dnn_.cudnnGetErrorString(status)};
}

bool DnnBatchNorm::done(Status status, const char* call) const {
  if (status / 1000 == kDnnNotSupported / 1000) return false;
  check(status, call);
  return true;
}

const DnnBatchNorm::Descriptors& DnnBatchNorm::prepared(const BatchNormShape& s) {
  Descriptors& made = prepared_[s];
  if (made.vectors) return made;
  const auto describe = [&](Owned& to, int type, int n, int h) {
    void* descriptor = nullptr;
    check(dnn_.cudnnCreateTensorDescriptor(&descriptor), "cudnnCreateTensorDescriptor");
    to = Owned{descriptor, {dnn_.cudnnDestroyTensorDescriptor}};
    check(dnn_.cudnnSetTensor4dDescriptor(descriptor, kDnnChannelsFirst, type, n, s.c, h, 1),
          "cudnnSetTensor4dDescriptor");
  };
  describe(made.images, s.short_ones ? kDnnShort : kDnnFloat, s.n, s.plane);
  describe(made.vectors, kDnnFloat, 1, 1);
  return made;
}

bool DnnBatchNorm::forward(const BatchNormShape& shape, double epsilon, const void* x, const float* scale,
                           const float* shift, void* y, float* mean, float* inverse) {
  const auto& [images, vectors] = prepared(shape);
  const float one = 1, zero = 0;
  return done(dnn_.cudnnBatchNormalizationForwardTraining(handle_, kDnnBatchNormSpatial, &one, &zero, images.get(), x,
                                                          images.get(), y, vectors.get(), scale, shift, 1, nullptr,
                                                          nullptr, epsilon, mean, inverse),
              "cudnnBatchNormalizationForwardTraining");
}

bool DnnBatchNorm::backward(const BatchNormShape& shape, double epsilon, const void* x, const void* dy,
                            const float* scale, const float* mean, const float* inverse, void* dx, float* dscale,
                            float* dshift) {
  const auto& [images, vectors] = prepared(shape);
  const float one = 1, zero = 0;
  return done(dnn_.cudnnBatchNormalizationBackward(handle_, kDnnBatchNormSpatial, &one, &zero, &one, &zero,
                                                   images.get(), x, images.get(), dy, images.get(), dx, vectors.get(),
                                                   scale, dscale, dshift, epsilon, mean, inverse),
              "cudnnBatchNormalizationBackward");
}

}  // namespace trainyard::cuda
