#include "engine/failure.hpp"

#include "support/catch.hpp"

#include <c10/util/Exception.h>

#include <new>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

constexpr c10::SourceLocation kSomewhere{"run", "Kernel.cu", 1};

template <class Exception>
std::exception_ptr thrown(const Exception& exception) {
  return std::make_exception_ptr(exception);
}

/// Returns what C10_CUDA_CHECK throws.
std::exception_ptr cuda_error(int code, const std::string& text,
                              c10::SourceLocation where = kSomewhere) {
  return thrown(c10::AcceleratorError(
      where, code,
      "CUDA error: " + text +
          "\nCUDA kernel errors might be asynchronously reported at some other API call"));
}

std::exception_ptr libtorch_error(const std::string& text) {
  return thrown(c10::Error(kSomewhere, text));
}

void check_refused(const std::exception_ptr& error, const std::string& part) {
  CAPTURE(part);
  const auto refusal = engine::refused_memory(error);
  REQUIRE(refusal.has_value());
  CHECK_THAT(*refusal, Contains(part));
  CHECK(engine::as_error(error).kind() == ErrorKind::resource);
  CHECK_THAT(engine::as_error(error).message(), StartsWith("out of memory: "));
}

}  // namespace

TEST_CASE("failure: every refused allocation of a GPU or host is out of memory") {
  check_refused(thrown(c10::OutOfMemoryError(kSomewhere, "CUDA out of memory. Tried")), "Tried");
  check_refused(cuda_error(2, "out of memory"), "CUDA error: out of memory");
  check_refused(thrown(std::bad_alloc()), "the allocation failed");
  for (const std::string text :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "CUDA driver error: out of memory",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"})
    check_refused(libtorch_error(text), text);
}

TEST_CASE("failure: refused page-locked memory names loader.pin_memory") {
  check_refused(
      cuda_error(2, "out of memory",
                 {"allocate_host_memory", "aten/src/ATen/cuda/CachingHostAllocator.cpp", 200}),
      "loader.pin_memory=false");
  CHECK(engine::refused_memory(cuda_error(2, "out of memory"))->find("pin_memory") ==
        std::string::npos);
}

TEST_CASE("failure: a failed kernel is an unexpected error that explains asynchronous reports") {
  for (const int code : {700, 719}) {
    CAPTURE(code);
    const std::exception_ptr error = cuda_error(code, "an illegal memory access was encountered");
    CHECK_FALSE(engine::refused_memory(error).has_value());
    const Error found = engine::as_error(error);
    CHECK(found.kind() == ErrorKind::unexpected);
    CHECK_THAT(found.message(), Contains("in this operation or an earlier one") &&
                                    Contains("(cudaError " + std::to_string(code) + ")"));
    CHECK_THAT(found.hint(), Contains("CUDA_LAUNCH_BLOCKING=1"));
  }
  const Error assertion = engine::as_error(cuda_error(710, "device-side assert triggered"));
  CHECK(assertion.kind() == ErrorKind::unexpected);
  CHECK_THAT(assertion.hint(), Contains("a class or token may be out of range"));
}

TEST_CASE("failure: a broken or unusable GPU is a resource error") {
  const Error found = engine::as_error(cuda_error(214, "uncorrectable ECC error encountered"));
  CHECK(found.kind() == ErrorKind::resource);
  CHECK_THAT(found.message(), StartsWith("the GPU cannot be used: CUDA error: uncorrectable"));
  CHECK_THAT(found.hint(), Contains("dmesg | grep Xid"));
}

TEST_CASE("failure: a convolution without a kernel of cuDNN is a resource error") {
  const std::exception_ptr error = libtorch_error(
      "GET was unable to find an engine to execute this computation after trying 3 plans");
  CHECK_FALSE(engine::refused_memory(error).has_value());
  CHECK(engine::as_error(error).kind() == ErrorKind::resource);
  CHECK_THAT(engine::as_error(error).hint(), Contains("lower loader.batch_size"));
}

TEST_CASE("failure: other errors of libtorch stay unexpected, without their stack traces") {
  const Error other = engine::as_error(cuda_error(1, "invalid argument"));
  CHECK(other.kind() == ErrorKind::unexpected);
  CHECK(other.message() == "libtorch: CUDA error: invalid argument (cudaError 1)");
  CHECK(engine::as_error(libtorch_error("mat1 and mat2 shapes cannot be multiplied")).message() ==
        "libtorch: mat1 and mat2 shapes cannot be multiplied");
}

TEST_CASE("failure: an operation that deterministic mode forbids is a config error with its name") {
  const Error found = engine::as_error(
      libtorch_error("grid_sampler_2d_backward_cuda does not have a deterministic implementation, "
                     "but you set 'torch.use_deterministic_algorithms(True)'. You can turn off"));
  CHECK(found.kind() == ErrorKind::config);
  CHECK(found.message() ==
        "trainer.deterministic: the operation grid_sampler_2d_backward_cuda has no deterministic "
        "implementation on this device");
  CHECK_THAT(found.hint(), Contains("trainer.deterministic=false"));
}
