#include "profiler/kernels/cuda/dnn_softmax.hpp"

namespace trainyard::cuda {
namespace {

int algorithm(const SoftmaxShape& s) { return s.logs ? kDnnSoftmaxLog : kDnnSoftmaxAccurate; }
int mode(const SoftmaxShape& s) { return s.plane == 1 ? kDnnSoftmaxInstance : kDnnSoftmaxChannel; }

}  // namespace

bool DnnSoftmax::there(const Dnn& dnn) { return dnn.cudnnSoftmaxForward && dnn.cudnnSoftmaxBackward; }

std::unique_ptr<DnnSoftmax> DnnSoftmax::make(const Tables& tables, void* handle) {
  if (!there(tables.dnn)) return nullptr;
  return std::unique_ptr<DnnSoftmax>{new DnnSoftmax(tables, handle)};
}

void* DnnSoftmax::prepared(const SoftmaxShape& s) {
  Owned& made = prepared_[s];
  if (!made) made = tensor(s.short_ones, s.n, s.c, s.plane, 1);
  return made.get();
}

bool DnnSoftmax::forward(const SoftmaxShape& shape, const void* x, void* y) {
  void* const all = prepared(shape);
  const float one = 1, zero = 0;
  return done(dnn_.cudnnSoftmaxForward(handle_, algorithm(shape), mode(shape), &one, all, x, &zero, all, y),
              "cudnnSoftmaxForward");
}

bool DnnSoftmax::backward(const SoftmaxShape& shape, const void* y, const void* dy, void* dx) {
  void* const all = prepared(shape);
  const float one = 1, zero = 0;
  return done(dnn_.cudnnSoftmaxBackward(handle_, algorithm(shape), mode(shape), &one, all, y, all, dy, &zero, all, dx),
              "cudnnSoftmaxBackward");
}

}  // namespace trainyard::cuda
