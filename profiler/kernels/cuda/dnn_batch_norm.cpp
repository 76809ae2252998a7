#include "profiler/kernels/cuda/dnn_batch_norm.hpp"

namespace trainyard::cuda {

bool DnnBatchNorm::there(const Dnn& dnn) {
  return dnn.cudnnBatchNormalizationForwardTraining && dnn.cudnnBatchNormalizationBackward;
}

std::unique_ptr<DnnBatchNorm> DnnBatchNorm::make(const Tables& tables, void* handle) {
  if (!there(tables.dnn)) return nullptr;
  return std::unique_ptr<DnnBatchNorm>{new DnnBatchNorm(tables, handle)};
}

const DnnBatchNorm::Descriptors& DnnBatchNorm::prepared(const BatchNormShape& s) {
  Descriptors& made = prepared_[s];
  if (made.vectors) return made;
  made.images = tensor(s.short_ones, s.n, s.c, s.plane, 1);
  made.vectors = tensor(false, 1, s.c, 1, 1);
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
