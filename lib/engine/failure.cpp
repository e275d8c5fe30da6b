#include "engine/failure.hpp"

#include "base/strings.hpp"

#include <c10/util/Exception.h>

#include <new>

namespace trainctl::engine {

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
    return {ErrorKind::unexpected, "libtorch: " + cause_of(error)};
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
  } catch (const c10::Error& error) {
    const std::string text = cause_of(error);  // the CPU allocator has no separate exception type
    const bool is_refused = text.find("not enough memory") != std::string::npos ||
                            text.find("can't allocate memory") != std::string::npos;
    return is_refused ? std::optional(text) : std::nullopt;
  } catch (const std::bad_alloc&) {
    return "the allocation failed";
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace trainctl::engine
