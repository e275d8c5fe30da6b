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

Error from_torch(const c10::Error& error) {
  const std::string text = first_line(error.what_without_backtrace());
  if (text.find("not enough memory") != std::string::npos ||
      text.find("can't allocate memory") != std::string::npos) {
    return out_of_memory(text);  // the CPU allocator has no exception of its own
  }
  return {ErrorKind::unexpected, "libtorch: " + text};
}

}  // namespace

Error as_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory(first_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return from_torch(error);
  } catch (const std::bad_alloc&) {
    return out_of_memory("the machine refused");
  } catch (const std::exception& error) {
    return {ErrorKind::unexpected, first_line(error.what())};
  } catch (...) {
    return {ErrorKind::unexpected, "something was thrown that is no exception"};
  }
}

}  // namespace trainctl::engine
