#include "profiler/cuda/ops/dnn_convolution.hpp"

#include <algorithm>
#include <array>

#include "profiler/cuda/executor.hpp"

namespace trainyard::cuda {

std::unique_ptr<DnnConvolution> DnnConvolution::make(const Tables& tables, Workspace workspace) {
  if (!tables.dnn.cudnnConvolutionBackwardFilter) return nullptr;  // the last one that is looked up
  std::unique_ptr<DnnConvolution> made{new DnnConvolution(tables, std::move(workspace))};
  made->check(tables.dnn.cudnnCreate(&made->handle_), "cudnnCreate");
  return made;
}

DnnConvolution::~DnnConvolution() {
  const Dnn& dnn = tables_.dnn;
  for (auto& [shape, each] : prepared_) {
    for (void* tensor : {each.x, each.y})
      if (tensor) dnn.cudnnDestroyTensorDescriptor(tensor);
    if (each.w) dnn.cudnnDestroyFilterDescriptor(each.w);
    if (each.convolution) dnn.cudnnDestroyConvolutionDescriptor(each.convolution);
  }
  if (handle_) dnn.cudnnDestroy(handle_);
}

void DnnConvolution::check(Status status, const char* call) const {
  if (status != 0) throw CudaError{call, status, tables_.dnn.cudnnGetErrorString(status)};
}

void DnnConvolution::use(Stream stream) { check(tables_.dnn.cudnnSetStream(handle_, stream), "cudnnSetStream"); }

DnnConvolution::Prepared& DnnConvolution::prepared(const ImageConvolution& s) {
  const auto [entry, added] = prepared_.try_emplace(s);
  Prepared& made = entry->second;
  if (!added && made.convolution) return made;
  const Dnn& dnn = tables_.dnn;
  const int type = s.short_ones ? kDnnShort : kDnnFloat;
  check(dnn.cudnnCreateTensorDescriptor(&made.x), "cudnnCreateTensorDescriptor");
  check(dnn.cudnnCreateTensorDescriptor(&made.y), "cudnnCreateTensorDescriptor");
  check(dnn.cudnnCreateFilterDescriptor(&made.w), "cudnnCreateFilterDescriptor");
  check(dnn.cudnnCreateConvolutionDescriptor(&made.convolution), "cudnnCreateConvolutionDescriptor");
  check(dnn.cudnnSetTensor4dDescriptor(made.x, kDnnChannelsFirst, type, s.n, s.c, s.h, s.w),
        "cudnnSetTensor4dDescriptor");
  check(dnn.cudnnSetTensor4dDescriptor(made.y, kDnnChannelsFirst, type, s.n, s.k, s.out_h, s.out_w),
        "cudnnSetTensor4dDescriptor");
  check(dnn.cudnnSetFilter4dDescriptor(made.w, type, kDnnChannelsFirst, s.k, s.c / s.groups, s.r, s.s),
        "cudnnSetFilter4dDescriptor");
  check(dnn.cudnnSetConvolution2dDescriptor(made.convolution, s.pad_h, s.pad_w, s.stride_h, s.stride_w, s.dilation_h,
                                            s.dilation_w, kDnnCrossCorrelation, kDnnFloat),
        "cudnnSetConvolution2dDescriptor");
  check(dnn.cudnnSetConvolutionGroupCount(made.convolution, s.groups), "cudnnSetConvolutionGroupCount");
  check(dnn.cudnnSetConvolutionMathType(made.convolution, s.short_ones ? kDnnTensorMath : kDnnFloatMath),
        "cudnnSetConvolutionMathType");
  return made;
}

bool DnnConvolution::run(Pass pass, const ImageConvolution& shape, const void* a, const void* b, void* result) {
  if (!shape.symmetric()) return false;
  const Dnn& dnn = tables_.dnn;
  Prepared& made = prepared(shape);
  void *first = made.x, *second = made.w, *third = made.y;
  auto choose = dnn.cudnnGetConvolutionForwardAlgorithm_v7;
  auto convolve = dnn.cudnnConvolutionForward;
  if (pass == Pass::data) {
    first = made.w, second = made.y, third = made.x;
    choose = dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7;
    convolve = dnn.cudnnConvolutionBackwardData;
  } else if (pass == Pass::filter) {
    second = made.y, third = made.w;
    choose = dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7;
    convolve = dnn.cudnnConvolutionBackwardFilter;
  }
  Prepared::Choice& choice = made.choices[static_cast<int>(pass)];
  if (!choice.known) {
    std::array<DnnAlgorithm, 16> algorithms{};  // by expected speed
    int count = 0;
    check(choose(handle_, first, second, made.convolution, third, static_cast<int>(algorithms.size()), &count,
                 algorithms.data()),
          "cudnnGetConvolutionAlgorithm_v7");
    const auto end = algorithms.begin() + count;
    const auto best = std::find_if(algorithms.begin(), end, [](const DnnAlgorithm& each) {
      return each.status == 0 && each.determinism == kDnnDeterministic;
    });
    choice.known = true;
    choice.any = best != end;
    if (choice.any) choice.algorithm = best->algorithm, choice.workspace = best->memory;
  }
  if (!choice.any) return false;
  const float one = 1, zero = 0;
  void* const workspace = choice.workspace > 0 ? workspace_(choice.workspace) : nullptr;
  check(convolve(handle_, &one, first, a, second, b, made.convolution, choice.algorithm, workspace, choice.workspace,
                 &zero, third, result),
        pass == Pass::forward ? "cudnnConvolutionForward"
        : pass == Pass::data  ? "cudnnConvolutionBackwardData"
                              : "cudnnConvolutionBackwardFilter");
  return true;
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
