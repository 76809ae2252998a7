// Built only if CUDA's headers are installed: checks that api.hpp and activity_records.hpp agree with them.
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <nvrtc.h>

#include <cstddef>
#include <type_traits>
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define TRAINYARD_HAS_CUDNN 1
#endif

#include "profiler/run/cuda/activity_records.hpp"
#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

template <class A, class B>
constexpr bool same(A ours, B theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

static_assert(sizeof(DeviceResource) == sizeof(CUdevResource));
static_assert(offsetof(DeviceResource, sm) == offsetof(CUdevResource, sm));
static_assert(offsetof(DeviceResource, sm.alignment) == offsetof(CUdevResource, sm.smCoscheduledAlignment));
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(same(kOutOfMemory, cudaErrorMemoryAllocation) && same(kStubDriver, cudaErrorStubLibrary));
static_assert(same(kOldDriver, cudaErrorInsufficientDriver) && same(kNoDevice, cudaErrorNoDevice));
static_assert(same(kPeerAlreadyEnabled, cudaErrorPeerAccessAlreadyEnabled));
static_assert(same(host_to_device, cudaMemcpyHostToDevice) && same(device_to_device, cudaMemcpyDeviceToDevice));
static_assert(same(sm_count, cudaDevAttrMultiProcessorCount) && same(l2_bytes, cudaDevAttrL2CacheSize) &&
              same(copy_engines, cudaDevAttrAsyncEngineCount));
static_assert(same(kNonBlocking, cudaStreamNonBlocking) && same(kNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(same(kNoTiming, cudaEventDisableTiming) && same(kMappedHostMemory, cudaHostAllocMapped));
static_assert(same(kGreenDefaultStream, CU_GREEN_CTX_DEFAULT_STREAM) && same(kResourceOfSms, CU_DEV_RESOURCE_TYPE_SM));
static_assert(same(kWaitGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ));
static_assert(same(kWriteInOrder, CU_STREAM_WRITE_VALUE_DEFAULT) && same(host_to_host, cudaMemcpyHostToHost));
static_assert(same(kRelaxedCapture, cudaStreamCaptureModeRelaxed) && same(kExternalEvent, cudaEventRecordExternal));

using RealKernel = CUpti_ActivityKernel10;
static_assert(offsetof(KernelRecord, start) == offsetof(RealKernel, start));
static_assert(offsetof(KernelRecord, device) == offsetof(RealKernel, deviceId));
static_assert(offsetof(KernelRecord, correlation) == offsetof(RealKernel, correlationId));
static_assert(offsetof(KernelRecord, name) == offsetof(RealKernel, name));
static_assert(sizeof(KernelRecord) <= sizeof(RealKernel));
using RealCopy = CUpti_ActivityMemcpy6;
static_assert(offsetof(MemcpyRecord, bytes) == offsetof(RealCopy, bytes));
static_assert(offsetof(MemcpyRecord, correlation) == offsetof(RealCopy, correlationId));
static_assert(offsetof(MemcpyRecord, channel_type) == offsetof(RealCopy, channelType));
static_assert(sizeof(MemcpyRecord) <= sizeof(RealCopy));
static_assert(same(kComputeChannel, CUPTI_CHANNEL_TYPE_COMPUTE) && same(kCopyChannel, CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY));
using RealMemset = CUpti_ActivityMemset4;
static_assert(offsetof(MemsetRecord, bytes) == offsetof(RealMemset, bytes));
static_assert(offsetof(MemsetRecord, end) == offsetof(RealMemset, end));
static_assert(offsetof(MemsetRecord, correlation) == offsetof(RealMemset, correlationId));
static_assert(sizeof(MemsetRecord) <= sizeof(RealMemset) && same(kMemsetRecord, CUPTI_ACTIVITY_KIND_MEMSET));
using RealPeerCopy = CUpti_ActivityMemcpyPtoP4;
static_assert(offsetof(PeerCopyRecord, from_device) == offsetof(RealPeerCopy, srcDeviceId));
static_assert(offsetof(PeerCopyRecord, to_device) == offsetof(RealPeerCopy, dstDeviceId));
static_assert(offsetof(PeerCopyRecord, correlation) == offsetof(RealPeerCopy, correlationId));
static_assert(offsetof(PeerCopyRecord, channel_type) == offsetof(RealPeerCopy, channelType));
static_assert(sizeof(PeerCopyRecord) <= sizeof(RealPeerCopy));
using RealCorrelation = CUpti_ActivityExternalCorrelation;
static_assert(offsetof(ExternalCorrelationRecord, external_id) == offsetof(RealCorrelation, externalId));
static_assert(offsetof(ExternalCorrelationRecord, correlation) == offsetof(RealCorrelation, correlationId));
static_assert(offsetof(OverheadRecord, start) == offsetof(CUpti_ActivityOverhead3, start));
static_assert(sizeof(OverheadRecord) <= sizeof(CUpti_ActivityOverhead3));
static_assert(same(kConcurrentKernelRecord, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
static_assert(same(kPeerCopyRecord, CUPTI_ACTIVITY_KIND_MEMCPY2) &&
              same(kOverheadRecord, CUPTI_ACTIVITY_KIND_OVERHEAD));
static_assert(same(kExternalCorrelationRecord, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
static_assert(same(kCustomCorrelation, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0));
static_assert(CUPTI_API_VERSION / 10000 == 13);

static_assert(same(kBlasFloat, CUDA_R_32F) && same(kBlasShort, CUDA_R_16BF));
static_assert(same(kBlasTf32Sums, CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(same(kBlasFloatSums, CUBLAS_COMPUTE_32F) && same(kBlasDefault, CUBLAS_GEMM_DEFAULT));

#ifdef TRAINYARD_HAS_CUDNN
/// Whether our parameter is passed as the library's: pointer as pointer, number as a number of its size or an enum.
template <class Ours, class Theirs>
constexpr bool passed_alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>)
    return true;
  else if constexpr (std::is_floating_point_v<Ours>)
    return std::is_same_v<Ours, Theirs>;
  else
    return (std::is_enum_v<Theirs> || std::is_integral_v<Theirs>)&&sizeof(Ours) == sizeof(Theirs);
}
template <class Ours, class Theirs>
inline constexpr bool kCalledAlike = false;
template <class R, class... Ours, class Q, class... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) inline constexpr bool kCalledAlike<R (*)(Ours...), Q (*)(Theirs...)> =
    passed_alike<R, Q>() && (passed_alike<Ours, Theirs>() && ...);
#define CALLED_ALIKE(function) static_assert(kCalledAlike<decltype(Dnn::function), decltype(&::function)>)
CALLED_ALIKE(cudnnSetTensor4dDescriptor);
CALLED_ALIKE(cudnnSetFilter4dDescriptor);
CALLED_ALIKE(cudnnSetConvolution2dDescriptor);
CALLED_ALIKE(cudnnConvolutionForward);
CALLED_ALIKE(cudnnConvolutionBackwardData);
CALLED_ALIKE(cudnnConvolutionBackwardFilter);
CALLED_ALIKE(cudnnBatchNormalizationForwardTraining);
CALLED_ALIKE(cudnnBatchNormalizationBackward);
CALLED_ALIKE(cudnnSoftmaxForward);
CALLED_ALIKE(cudnnSoftmaxBackward);
CALLED_ALIKE(cudnnCreatePoolingDescriptor);
CALLED_ALIKE(cudnnDestroyPoolingDescriptor);
CALLED_ALIKE(cudnnSetPooling2dDescriptor);
CALLED_ALIKE(cudnnPoolingForward);
CALLED_ALIKE(cudnnPoolingBackward);
#undef CALLED_ALIKE
static_assert(same(kDnnShort, CUDNN_DATA_BFLOAT16) && same(kDnnTensorMath, CUDNN_TENSOR_OP_MATH));
static_assert(CUDNN_MAJOR == 9);
static_assert(sizeof(DnnAlgorithm) == sizeof(cudnnConvolutionFwdAlgoPerf_t));
static_assert(sizeof(DnnAlgorithm) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
static_assert(sizeof(DnnAlgorithm) == sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
static_assert(offsetof(DnnAlgorithm, memory) == offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
static_assert(offsetof(DnnAlgorithm, determinism) == offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
static_assert(same(kDnnFloat, CUDNN_DATA_FLOAT) && same(kDnnChannelsFirst, CUDNN_TENSOR_NCHW));
static_assert(same(kDnnCrossCorrelation, CUDNN_CROSS_CORRELATION) && same(kDnnFloatMath, CUDNN_FMA_MATH));
static_assert(same(kDnnDeterministic, CUDNN_DETERMINISTIC) && same(kDnnDefaultMath, CUDNN_DEFAULT_MATH));
static_assert(same(kDnnNotSupported, CUDNN_STATUS_NOT_SUPPORTED));
static_assert(same(kDnnBatchNormSpatial, CUDNN_BATCHNORM_SPATIAL));
static_assert(same(kDnnSoftmaxAccurate, CUDNN_SOFTMAX_ACCURATE) && same(kDnnSoftmaxLog, CUDNN_SOFTMAX_LOG));
static_assert(same(kDnnSoftmaxInstance, CUDNN_SOFTMAX_MODE_INSTANCE));
static_assert(same(kDnnSoftmaxChannel, CUDNN_SOFTMAX_MODE_CHANNEL));
static_assert(same(kDnnMaxPool, CUDNN_POOLING_MAX) && same(kDnnNoNan, CUDNN_NOT_PROPAGATE_NAN));
static_assert(same(kDnnAveragePadded, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING));
static_assert(same(kDnnAverageInside, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING));
#endif

}  // namespace trainyard::cuda
