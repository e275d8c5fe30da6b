#include "engine/failure.hpp"

#include "base/machine/cuda_errors.hpp"
#include "base/strings.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

namespace trainctl::engine {
namespace {

/// Parts of the messages with which libtorch and the libraries of CUDA report that an allocation
/// failed: CPU allocator, CUDA runtime and driver, cuBLAS and others (..._STATUS_ALLOC_FAILED, and
/// for its handle NOT_INITIALIZED), cuDNN and cuRAND (..._ALLOCATION_FAILED).
constexpr std::array kRefusals{"not enough memory",    "can't allocate memory",
                               "error: out of memory", "CUBLAS_STATUS_NOT_INITIALIZED",
                               "ALLOC_FAILED",         "ALLOCATION_FAILED"};
/// cuDNN rejected every kernel of a convolution, for example without memory for their workspaces.
constexpr std::string_view kNoConvolution = "unable to find an engine to execute";
constexpr std::string_view kNoDeterministic = " does not have a deterministic implementation";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Converts an error code of CUDA that is not about memory.
Error accelerator_error(const c10::AcceleratorError& error) {
  const int code = error.get_error_code();
  const std::string cause = fmt::format("{} (cudaError {})", cause_of(error), code);
  const CudaFault fault = cuda_fault(code);
  if (fault == CudaFault::hardware)
    return {ErrorKind::resource,
            fmt::format("the GPU cannot be used: {}\nhint: {}", cause, kHardwareHint)};
  if (fault != CudaFault::kernel) return {ErrorKind::unexpected, "libtorch: " + cause};
  return {ErrorKind::unexpected,
          fmt::format("a kernel failed on the GPU, in this operation or an earlier one: {}\nhint: "
                      "{}{}",
                      cause,
                      code == kCudaAssertion
                          ? "a class or token may be out of range, see 'trainctl data show'; or "
                          : "",
                      kKernelHint)};
}

/// Converts an exception of libtorch that is not about memory.
Error libtorch_error(const c10::Error& error) {
  if (const auto* accelerator = dynamic_cast<const c10::AcceleratorError*>(&error))
    return accelerator_error(*accelerator);
  const std::string cause = cause_of(error);
  const std::size_t end = cause.find(kNoDeterministic);
  if (end != std::string::npos)
    return {ErrorKind::config,
            fmt::format("trainer.deterministic: the operation {} has no deterministic "
                        "implementation on this device\nhint: use another layer, or set "
                        "trainer.deterministic=false",
                        cause.substr(0, end))};
  if (contains(cause, kNoConvolution))
    return {
        ErrorKind::resource,
        fmt::format("cuDNN found no kernel for a convolution: {}\nhint: if the GPU has no memory "
                    "for a workspace, lower loader.batch_size; else run 'trainctl doctor'",
                    cause)};
  return {ErrorKind::unexpected, "libtorch: " + cause};
}

/// Only the place of the error in libtorch distinguishes page-locked memory of the host from memory
/// of the GPU.
std::string cause_of_refusal(const c10::Error& error) {
  const bool host = contains(error.what(), "CachingHostAllocator");
  return cause_of(error) + (host ? " for page-locked memory of the host, which "
                                   "loader.pin_memory=false does not use"
                                 : "");
}

}  // namespace

std::string cause_of(const std::exception& error) {
  const auto* libtorch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = libtorch != nullptr ? libtorch->what_without_backtrace() : error.what();
  return printable(text.substr(0, text.find('\n')));
}

Error as_error(const std::exception_ptr& thrown) {
  if (const auto refusal = refused_memory(thrown)) {
    return {ErrorKind::resource,
            fmt::format("out of memory: {}\nhint: lower loader.batch_size or use a smaller model",
                        *refusal)};
  }
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return libtorch_error(error);
  } catch (const std::exception& error) {
    return {ErrorKind::unexpected, cause_of(error)};
  } catch (...) {
    return {ErrorKind::unexpected, "an exception of unknown type was thrown"};
  }
}

std::optional<std::string> refused_memory(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::OutOfMemoryError& error) {
    return cause_of(error);
  } catch (const c10::AcceleratorError& error) {
    if (cuda_fault(error.get_error_code()) != CudaFault::out_of_memory) return std::nullopt;
    return cause_of_refusal(error);
  } catch (const c10::Error& error) {  // no separate exception type
    const std::string cause = cause_of(error);
    const bool is_refused = std::ranges::any_of(
        kRefusals, [&](const char* refusal) { return contains(cause, refusal); });
    return is_refused ? std::optional(cause_of_refusal(error)) : std::nullopt;
  } catch (const std::bad_alloc&) {
    return "the allocation failed";
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace trainctl::engine
