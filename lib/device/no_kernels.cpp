#include "device/kernels.hpp"

namespace trainctl::device {

namespace {

constexpr const char* kNoKernels =
    "trainctl was built without CUDA kernels, because no CUDA compiler was found";

}  // namespace

const char* launch_gather(const Gather& /*job*/, float* /*inputs_nchw*/, void* /*stream*/) {
  return kNoKernels;
}

const char* launch_row_entropy(const RowEntropy& /*job*/, void* /*stream*/) { return kNoKernels; }

const char* launch_add_norm(const AddNorm& /*job*/, void* /*stream*/) { return kNoKernels; }

const char* launch_add_norm_backward(const AddNormBackward& /*job*/, void* /*stream*/) {
  return kNoKernels;
}

const char* launch_bias_gelu(const BiasGelu& /*job*/, void* /*stream*/) { return kNoKernels; }

const char* launch_batch_moments(const BatchMoments& /*job*/, void* /*stream*/) {
  return kNoKernels;
}

const char* launch_batch_norm_relu(const BatchNormRelu& /*job*/, void* /*stream*/) {
  return kNoKernels;
}

const char* launch_batch_norm_relu_backward(const BatchNormReluBackward& /*job*/,
                                            void* /*stream*/) {
  return kNoKernels;
}

const char* launch_average_weights(const AverageWeights& /*job*/, void* /*stream*/) {
  return kNoKernels;
}

}  // namespace trainctl::device
