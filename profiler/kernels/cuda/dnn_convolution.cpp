#include "profiler/kernels/cuda/dnn_convolution.hpp"

#include <algorithm>
#include <array>

namespace trainyard::cuda {

std::unique_ptr<DnnConvolution> DnnConvolution::make(const Tables& tables, Workspace workspace, bool tf32) {
  if (!tables.dnn.cudnnConvolutionBackwardFilter) return nullptr;  // the last one that is looked up
  std::unique_ptr<DnnConvolution> made{new DnnConvolution(tables, std::move(workspace), tf32)};
  void* handle = nullptr;
  made->check(tables.dnn.cudnnCreate(&handle), "cudnnCreate");
  made->handle_ = Owned{handle, {tables.dnn.cudnnDestroy}};
  return made;
}

void DnnConvolution::check(Status status, const char* call) const {
  if (status != 0) throw CudaError{call, status, tables_.dnn.cudnnGetErrorString(status)};
}

void DnnConvolution::use(Stream stream) { check(tables_.dnn.cudnnSetStream(handle_.get(), stream), "cudnnSetStream"); }

/// Math type: how algorithms may round.
int DnnConvolution::math(const ImageConvolution& shape) const {
  return shape.short_ones ? kDnnTensorMath : tf32_ ? kDnnDefaultMath : kDnnFloatMath;
}

DnnConvolution::Prepared& DnnConvolution::prepared(const ImageConvolution& s) {
  const auto [entry, added] = prepared_.try_emplace(s);
  Prepared& made = entry->second;
  if (!added && made.convolution) return made;
  const Dnn& dnn = tables_.dnn;
  const int type = s.short_ones ? kDnnShort : kDnnFloat;
  const auto create = [&](Owned& to, Status (*call)(void**), Status (*destroy)(void*), const char* name) {
    void* descriptor = nullptr;
    check(call(&descriptor), name);
    to = Owned{descriptor, {destroy}};
  };
  for (Owned* tensor : {&made.x, &made.y})
    create(*tensor, dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor, "cudnnCreateTensorDescriptor");
  create(made.w, dnn.cudnnCreateFilterDescriptor, dnn.cudnnDestroyFilterDescriptor, "cudnnCreateFilterDescriptor");
  create(made.convolution, dnn.cudnnCreateConvolutionDescriptor, dnn.cudnnDestroyConvolutionDescriptor,
         "cudnnCreateConvolutionDescriptor");
  check(dnn.cudnnSetTensor4dDescriptor(made.x.get(), kDnnChannelsFirst, type, s.n, s.c, s.h, s.w),
        "cudnnSetTensor4dDescriptor");
  check(dnn.cudnnSetTensor4dDescriptor(made.y.get(), kDnnChannelsFirst, type, s.n, s.k, s.out_h, s.out_w),
        "cudnnSetTensor4dDescriptor");
  check(dnn.cudnnSetFilter4dDescriptor(made.w.get(), type, kDnnChannelsFirst, s.k, s.c / s.groups, s.r, s.s),
        "cudnnSetFilter4dDescriptor");
  check(dnn.cudnnSetConvolution2dDescriptor(made.convolution.get(), s.pad_h, s.pad_w, s.stride_h, s.stride_w,
                                            s.dilation_h, s.dilation_w, kDnnCrossCorrelation, kDnnFloat),
        "cudnnSetConvolution2dDescriptor");
  check(dnn.cudnnSetConvolutionGroupCount(made.convolution.get(), s.groups), "cudnnSetConvolutionGroupCount");
  check(dnn.cudnnSetConvolutionMathType(made.convolution.get(), math(s)), "cudnnSetConvolutionMathType");
  return made;
}

bool DnnConvolution::run(Pass pass, const ImageConvolution& shape, const void* a, const void* b, void* result) {
  if (!shape.symmetric()) return false;
  const Dnn& dnn = tables_.dnn;
  Prepared& made = prepared(shape);
  void *first = made.x.get(), *second = made.w.get(), *third = made.y.get();
  auto choose = dnn.cudnnGetConvolutionForwardAlgorithm_v7;
  auto convolve = dnn.cudnnConvolutionForward;
  if (pass == Pass::data) {
    first = made.w.get(), second = made.y.get(), third = made.x.get();
    choose = dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7;
    convolve = dnn.cudnnConvolutionBackwardData;
  } else if (pass == Pass::filter) {
    second = made.y.get(), third = made.w.get();
    choose = dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7;
    convolve = dnn.cudnnConvolutionBackwardFilter;
  }
  std::optional<std::vector<DnnAlgorithm>>& choices = made.choices[static_cast<int>(pass)];
  if (!choices) {
    std::array<DnnAlgorithm, 16> algorithms{};  // by expected speed
    int count = 0;
    check(choose(handle_.get(), first, second, made.convolution.get(), third, static_cast<int>(algorithms.size()),
                 &count, algorithms.data()),
          "cudnnGetConvolutionAlgorithm_v7");
    choices.emplace(algorithms.begin(), algorithms.begin() + count);
    std::erase_if(*choices, [&](const DnnAlgorithm& each) {
      const bool rounds = !shape.short_ones && !tf32_ && each.math != kDnnFloatMath && each.math != kDnnDefaultMath;
      return each.status != 0 || each.determinism != kDnnDeterministic || rounds;
    });
  }
  while (!choices->empty()) {
    const DnnAlgorithm& best = choices->front();
    // Algorithm and workspace belong to this math type; floats stay floats whatever cuDNN's default is.
    const int math = shape.short_ones || tf32_ ? best.math : kDnnFloatMath;
    check(dnn.cudnnSetConvolutionMathType(made.convolution.get(), math), "cudnnSetConvolutionMathType");
    const float one = 1, zero = 0;
    void* const workspace = best.memory > 0 ? workspace_(best.memory) : nullptr;
    const Status status = convolve(handle_.get(), &one, first, a, second, b, made.convolution.get(), best.algorithm,
                                   workspace, best.memory, &zero, third, result);
    if (status / 1000 != kDnnNotSupported / 1000) {
      check(status, pass == Pass::forward ? "cudnnConvolutionForward"
                    : pass == Pass::data  ? "cudnnConvolutionBackwardData"
                                          : "cudnnConvolutionBackwardFilter");
      return true;
    }
    choices->erase(choices->begin());  // the heuristic proposed an unsupported algorithm
  }
  return false;
}

bool DnnConvolution::forward(const ImageConvolution& shape, const void* x, const void* w, void* y) {
  return run(Pass::forward, shape, x, w, y);
}
bool DnnConvolution::data_gradient(const ImageConvolution& shape, const void* w, const void* dy, void* dx) {
  return run(Pass::data, shape, w, dy, dx);
}
bool DnnConvolution::filter_gradient(const ImageConvolution& shape, const void* x, const void* dy, void* dw) {
  return run(Pass::filter, shape, x, dy, dw);
}

}  // namespace trainyard::cuda
