#pragma once

#include <cstddef>
#include <cstdint>

// The used part of NVIDIA's libraries, declared here: building needs none of their headers, and each function is looked
// up at run time. abi_check.cpp compares the declarations with the real headers if these are installed. In tests, a
// fake that stands in for GPUs fills the tables.
namespace trainyard::cuda {

using Status = int;  // 0: success, in every library
using Stream = void*;
using Event = void*;
using DevicePointer = std::uint64_t;

inline constexpr Status kOutOfMemory = 2, kStubDriver = 34, kOldDriver = 35, kNoDevice = 100, kPeerAlreadyEnabled = 704;
enum CopyKind : int { host_to_host = 0, host_to_device = 1, device_to_host = 2, device_to_device = 3 };
enum Attribute : int { sm_count = 16, l2_bytes = 38, copy_engines = 40, capability_major = 75, capability_minor = 76 };
inline constexpr unsigned kNonBlocking = 1;         // of streams
inline constexpr unsigned kNoTiming = 2;            // of events
inline constexpr unsigned kGreenDefaultStream = 1;  // of green contexts: required
inline constexpr unsigned kMappedHostMemory = 2;
inline constexpr unsigned kWaitGreaterOrEqual = 0, kWriteInOrder = 0;
inline constexpr int kRelaxedCapture = 2;      // other threads may make any call meanwhile
inline constexpr unsigned kExternalEvent = 1;  // record in a captured stream, made on each run of the graph
inline constexpr int kResourceOfSms = 1;

/// CUdevSmResource, and CUdevResource, version 1.
struct SmResource {
  unsigned sm_count, least_partition, alignment;
};
struct DeviceResource {
  int type;
  unsigned char padding[92];
  union {
    SmResource sm;
    unsigned char oversize[48];
  };
};

/// libcuda.so.1: comes with the driver.
struct Driver {
  Status (*cuInit)(unsigned);
  Status (*cuDriverGetVersion)(int*);
  Status (*cuGetErrorString)(Status, const char**);
  Status (*cuDeviceGet)(int* device, int ordinal);
  Status (*cuDeviceGetName)(char*, int length, int device);
  Status (*cuDeviceGetDevResource)(int device, DeviceResource*, int type);
  Status (*cuDevSmResourceSplitByCount)(DeviceResource* result, unsigned* groups, const DeviceResource* input,
                                        DeviceResource* rest, unsigned flags, unsigned least);
  Status (*cuDevResourceGenerateDesc)(void** description, DeviceResource*, unsigned count);
  Status (*cuGreenCtxCreate)(void** context, void* description, int device, unsigned flags);
  Status (*cuGreenCtxDestroy)(void* context);
  Status (*cuGreenCtxStreamCreate)(Stream*, void* context, unsigned flags, int priority);
  /// Kernels of a library belong to no context: a launch uses that of its stream, of a part of a GPU or of the whole.
  Status (*cuLibraryLoadData)(void** library, const void* code, int* compiler_options, void** compiler_values,
                              unsigned compiler_count, int* options, void** values, unsigned count);
  Status (*cuLibraryUnload)(void* library);
  Status (*cuLibraryGetKernel)(void** kernel, void* library, const char* name);
  Status (*cuLaunchKernel)(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** arguments,
                           void** extra);
  Status (*cuStreamWaitValue32_v2)(Stream, DevicePointer, std::uint32_t value, unsigned flags);
  Status (*cuStreamWriteValue32_v2)(Stream, DevicePointer, std::uint32_t value, unsigned flags);
};

/// libcudart.so.13.
struct Runtime {
  Status (*cudaRuntimeGetVersion)(int*);
  Status (*cudaGetDeviceCount)(int*);
  const char* (*cudaGetErrorString)(Status);
  Status (*cudaSetDevice)(int);
  Status (*cudaDeviceGetAttribute)(int*, int attribute, int device);
  Status (*cudaDeviceSynchronize)();
  Status (*cudaStreamCreateWithFlags)(Stream*, unsigned flags);
  Status (*cudaStreamDestroy)(Stream);
  Status (*cudaStreamSynchronize)(Stream);
  Status (*cudaStreamWaitEvent)(Stream, Event, unsigned flags);
  Status (*cudaEventCreateWithFlags)(Event*, unsigned flags);
  Status (*cudaEventDestroy)(Event);
  Status (*cudaEventRecord)(Event, Stream);
  Status (*cudaEventRecordWithFlags)(Event, Stream, unsigned flags);
  Status (*cudaEventElapsedTime)(float* milliseconds, Event from, Event to);
  Status (*cudaStreamBeginCapture)(Stream, int mode);
  Status (*cudaStreamEndCapture)(Stream, void** graph);
  Status (*cudaGraphInstantiate)(void** executable, void* graph, unsigned long long flags);
  Status (*cudaGraphLaunch)(void* executable, Stream);
  Status (*cudaGraphExecDestroy)(void* executable);
  Status (*cudaGraphDestroy)(void* graph);
  Status (*cudaMalloc)(void**, std::size_t);
  Status (*cudaFree)(void*);
  Status (*cudaHostAlloc)(void**, std::size_t, unsigned flags);
  Status (*cudaFreeHost)(void*);
  Status (*cudaHostGetDevicePointer)(void** device, void* host, unsigned flags);
  Status (*cudaMemGetInfo)(std::size_t* free, std::size_t* total);
  Status (*cudaMemsetAsync)(void*, int value, std::size_t, Stream);
  Status (*cudaMemcpyAsync)(void* to, const void* from, std::size_t, int kind, Stream);
  Status (*cudaMemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device, std::size_t, Stream);
  Status (*cudaDeviceCanAccessPeer)(int* can, int device, int peer);
  Status (*cudaDeviceEnablePeerAccess)(int peer, unsigned flags);
};

inline constexpr int kBlasFloat = 0, kBlasShort = 14;          // CUDA_R_32F, CUDA_R_16BF
inline constexpr int kBlasFloatSums = 68, kBlasTf32Sums = 77;  // CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32
inline constexpr int kBlasDefault = -1;                        // CUBLAS_GEMM_DEFAULT

/// libcublas.so.13.
struct Blas {
  Status (*cublasCreate_v2)(void** handle);
  Status (*cublasDestroy_v2)(void* handle);
  Status (*cublasSetStream_v2)(void* handle, Stream);
  Status (*cublasSetWorkspace_v2)(void* handle, void* memory, std::size_t bytes);
  Status (*cublasGetVersion_v2)(void* handle, int*);
  Status (*cublasSetSmCountTarget)(void* handle, int);
  Status (*cublasSgemm_v2)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const float* alpha,
                           const float* a, int lda, const float* b, int ldb, const float* beta, float* c, int ldc);
  Status (*cublasGemmEx)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                         const void* a, int type_a, int lda, const void* b, int type_b, int ldb, const void* beta,
                         void* c, int type_c, int ldc, int compute, int algorithm);
  Status (*cublasGemmStridedBatchedEx)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                                       const void* alpha, const void* a, int type_a, int lda, long long step_a,
                                       const void* b, int type_b, int ldb, long long step_b, const void* beta, void* c,
                                       int type_c, int ldc, long long step_c, int count, int compute, int algorithm);
};

/// cudnnConvolutionFwdAlgoPerf_t; the structs of the gradients have the same layout.
struct DnnAlgorithm {
  int algorithm, status;
  float time;
  std::size_t memory;
  int determinism, math;  // determinism 1: the same bits every time
  int reserved[3];
};
inline constexpr int kDnnFloat = 0, kDnnChannelsFirst = 0, kDnnCrossCorrelation = 1;
inline constexpr int kDnnShort = 9;  // bfloat16
inline constexpr int kDnnDefaultMath = 0, kDnnTensorMath = 1;
inline constexpr int kDnnFloatMath = 3;           // no tensor cores: 32-bit floats are not rounded
inline constexpr Status kDnnNotSupported = 3000;  // and its reasons, up to 3999
inline constexpr int kDnnDeterministic = 1;

/// libcudnn.so.9. Convolutions, batch norms, pools and softmax use the older API. cuDNN 9 still has it (checked in the
/// headers of 9.19), and deprecates it except for softmax.
struct Dnn {
  using ChooseAlgorithm = Status (*)(void* handle, void* a, void* b, void* convolution, void* result, int most,
                                     int* count, DnnAlgorithm*);
  using Convolve = Status (*)(void* handle, const void* alpha, void* a, const void* a_data, void* b, const void* b_data,
                              void* convolution, int algorithm, void* workspace, std::size_t workspace_bytes,
                              const void* beta, void* result, void* result_data);
  std::size_t (*cudnnGetVersion)();
  Status (*cudnnCreate)(void** handle);
  Status (*cudnnDestroy)(void* handle);
  Status (*cudnnSetStream)(void* handle, Stream);
  const char* (*cudnnGetErrorString)(Status);
  Status (*cudnnCreateTensorDescriptor)(void** tensor);
  Status (*cudnnDestroyTensorDescriptor)(void* tensor);
  Status (*cudnnSetTensor4dDescriptor)(void* tensor, int format, int type, int n, int c, int h, int w);
  Status (*cudnnCreateFilterDescriptor)(void** filter);
  Status (*cudnnDestroyFilterDescriptor)(void* filter);
  Status (*cudnnSetFilter4dDescriptor)(void* filter, int type, int format, int k, int c, int h, int w);
  Status (*cudnnCreateConvolutionDescriptor)(void** convolution);
  Status (*cudnnDestroyConvolutionDescriptor)(void* convolution);
  Status (*cudnnSetConvolution2dDescriptor)(void* convolution, int pad_h, int pad_w, int stride_h, int stride_w,
                                            int dilation_h, int dilation_w, int mode, int type);
  Status (*cudnnSetConvolutionGroupCount)(void* convolution, int groups);
  Status (*cudnnSetConvolutionMathType)(void* convolution, int math);
  ChooseAlgorithm cudnnGetConvolutionForwardAlgorithm_v7;         // x, w -> y
  ChooseAlgorithm cudnnGetConvolutionBackwardDataAlgorithm_v7;    // w, dy -> dx
  ChooseAlgorithm cudnnGetConvolutionBackwardFilterAlgorithm_v7;  // x, dy -> dw
  Convolve cudnnConvolutionForward, cudnnConvolutionBackwardData, cudnnConvolutionBackwardFilter;
  // Null if the library no longer has them. `vectors`: the descriptor of the arrays with one value per channel.
  Status (*cudnnBatchNormalizationForwardTraining)(void* handle, int mode, const void* alpha, const void* beta, void* x,
                                                   const void* x_data, void* y, void* y_data, void* vectors,
                                                   const void* scale, const void* shift, double momentum,
                                                   void* running_mean, void* running_variance, double epsilon,
                                                   void* mean, void* inverse);
  Status (*cudnnBatchNormalizationBackward)(void* handle, int mode, const void* alpha, const void* beta,
                                            const void* alpha_vectors, const void* beta_vectors, void* x,
                                            const void* x_data, void* dy, const void* dy_data, void* dx, void* dx_data,
                                            void* vectors, const void* scale, void* dscale, void* dshift,
                                            double epsilon, const void* mean, const void* inverse);
  Status (*cudnnSoftmaxForward)(void* handle, int algorithm, int mode, const void* alpha, void* x, const void* x_data,
                                const void* beta, void* y, void* y_data);
  Status (*cudnnSoftmaxBackward)(void* handle, int algorithm, int mode, const void* alpha, void* y, const void* y_data,
                                 void* dy, const void* dy_data, const void* beta, void* dx, void* dx_data);
  Status (*cudnnCreatePoolingDescriptor)(void** pool);
  Status (*cudnnDestroyPoolingDescriptor)(void* pool);
  Status (*cudnnSetPooling2dDescriptor)(void* pool, int mode, int nan, int window_h, int window_w, int pad_h, int pad_w,
                                        int stride_h, int stride_w);
  Status (*cudnnPoolingForward)(void* handle, void* pool, const void* alpha, void* x, const void* x_data,
                                const void* beta, void* y, void* y_data);
  Status (*cudnnPoolingBackward)(void* handle, void* pool, const void* alpha, void* y, const void* y_data, void* dy,
                                 const void* dy_data, void* x, const void* x_data, const void* beta, void* dx,
                                 void* dx_data);
};
inline constexpr int kDnnBatchNormSpatial = 1;                         // statistics over images and planes
inline constexpr int kDnnSoftmaxAccurate = 1, kDnnSoftmaxLog = 2;      // both subtract the largest element first
inline constexpr int kDnnSoftmaxInstance = 0, kDnnSoftmaxChannel = 1;  // over [c, h, w], over c
inline constexpr int kDnnMaxPool = 0;
inline constexpr int kDnnAveragePadded = 1, kDnnAverageInside = 2;  // with the padding's zeros, without them
inline constexpr int kDnnNoNan = 0;                                 // a maximum ignores NaN

/// libcupti.so.13.
struct Cupti {
  using Request = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  using Complete = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                            std::size_t valid);
  Status (*cuptiGetVersion)(std::uint32_t*);
  Status (*cuptiGetResultString)(Status, const char**);
  Status (*cuptiActivityEnable)(int kind);
  Status (*cuptiActivityDisable)(int kind);
  Status (*cuptiActivityRegisterCallbacks)(Request, Complete);
  Status (*cuptiActivityGetNextRecord)(std::uint8_t* buffer, std::size_t valid, void** record);
  Status (*cuptiActivityGetNumDroppedRecords)(void* context, std::uint32_t stream, std::size_t* dropped);
  Status (*cuptiActivityFlushAll)(std::uint32_t flags);
  Status (*cuptiActivityPushExternalCorrelationId)(int kind, std::uint64_t id);
  Status (*cuptiActivityPopExternalCorrelationId)(int kind, std::uint64_t* last);
};

/// libnvrtc.so.13.
struct Nvrtc {
  Status (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(Status);
  Status (*nvrtcCreateProgram)(void** program, const char* source, const char* name, int headers,
                               const char* const* header_texts, const char* const* header_names);
  Status (*nvrtcDestroyProgram)(void** program);
  Status (*nvrtcCompileProgram)(void* program, int options, const char* const* texts);
  Status (*nvrtcGetProgramLogSize)(void* program, std::size_t*);
  Status (*nvrtcGetProgramLog)(void* program, char*);
  Status (*nvrtcGetCUBINSize)(void* program, std::size_t*);
  Status (*nvrtcGetCUBIN)(void* program, char*);
};

/// nvmlMemory_t.
struct NvmlMemory {
  unsigned long long total, free, used;
};
/// nvmlPciInfo_t.
struct NvmlPci {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];  // "00000000:8F:00.0"
};

/// libnvidia-ml.so.1: clocks, power and throttle reasons; the GPUs and their links.
struct Nvml {
  Status (*nvmlInit_v2)();
  Status (*nvmlShutdown)();
  Status (*nvmlDeviceGetHandleByIndex_v2)(unsigned, void** device);
  Status (*nvmlDeviceGetClockInfo)(void* device, int type, unsigned* megahertz);
  Status (*nvmlDeviceGetPowerUsage)(void* device, unsigned* milliwatts);
  Status (*nvmlDeviceGetCurrentClocksEventReasons)(void* device, unsigned long long*);  // null: not available
  Status (*nvmlSystemGetDriverVersion)(char*, unsigned length);
  Status (*nvmlDeviceGetCount_v2)(unsigned*);
  Status (*nvmlDeviceGetName)(void* device, char*, unsigned length);
  Status (*nvmlDeviceGetMemoryInfo)(void* device, NvmlMemory*);
  Status (*nvmlDeviceGetPciInfo_v3)(void* device, NvmlPci*);
  Status (*nvmlDeviceGetMaxPcieLinkGeneration)(void* device, unsigned*);
  Status (*nvmlDeviceGetMaxPcieLinkWidth)(void* device, unsigned* lanes);
  Status (*nvmlDeviceGetTopologyCommonAncestor)(void* device, void* other, unsigned* level);
  Status (*nvmlDeviceGetNvLinkState)(void* device, unsigned link, unsigned* active);
  Status (*nvmlDeviceGetNvLinkVersion)(void* device, unsigned link, unsigned* generation);
  Status (*nvmlDeviceGetNvLinkRemoteDeviceType)(void* device, unsigned link, int* type);
  Status (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void* device, unsigned link, NvmlPci*);
};

/// All tables. The functions of a library that is not available are null.
struct Tables {
  Driver driver{};
  Runtime runtime{};
  Blas blas{};
  Dnn dnn{};
  Cupti cupti{};
  Nvrtc nvrtc{};
  Nvml nvml{};
};

}  // namespace trainyard::cuda
