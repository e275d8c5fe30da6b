#include "engine/failure.hpp"

#include "base/strings.hpp"

#include <c10/util/Exception.h>

#include <new>
#include <string>

namespace trainctl::engine {
namespace {

Error out_of_memory(const std::string& what) {
  return {ErrorKind::resource,
          fmt::format("out of memory: {}; lower loader.batch_size or the model", what)};
}

std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')));
}

/// The CPU allocator has no exception of its own.
bool is_of_cpu_allocator(const std::string& text) {
  return text.find("not enough memory") != std::string::npos ||
         text.find("can't allocate memory") != std::string::npos;
}

}  // namespace

Error as_error(const std::exception_ptr& thrown) {
  if (const auto refusal = refused_memory(thrown)) return out_of_memory(*refusal);
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return {ErrorKind::unexpected, "libtorch: " + first_line(error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return {ErrorKind::unexpected, first_line(error.what())};
  } catch (...) {
    return {ErrorKind::unexpected, "something was thrown that is no exception"};
  }
}

std::optional<std::string> refused_memory(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::OutOfMemoryError& error) {
    return first_line(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const std::string text = first_line(error.what_without_backtrace());
    return is_of_cpu_allocator(text) ? std::optional(text) : std::nullopt;
  } catch (const std::bad_alloc&) {
    return "the machine refused";
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace trainctl::engine
