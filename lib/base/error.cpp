#include "base/error.hpp"

#include "base/strings.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>

namespace trainctl {

Error::Error(ErrorKind kind, std::string message, std::source_location where)
    : kind_(kind),
      message_(bounded(without_hint(message))),
      hint_(bounded(hint_of(message))),
      text_(bounded(message)),
      where_(where) {}

void Error::add_frame(const std::string& frame) { text_ = with_prefix(bounded(frame), text_); }

namespace {

std::string message_of(const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().string();
  return fmt::format("cannot access {}: {}",
                     path.empty() ? "the working directory" : printable(path),
                     error.code().message());
}

std::string message_of(const std::system_error& error) {
  const bool is_limit = error.code() == std::errc::resource_unavailable_try_again;
  return fmt::format(
      "a system call failed: {}{}", error.code().message(),
      is_limit ? "\nhint: raise the limit of processes and threads (ulimit -u)" : "");
}

}  // namespace

Error to_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return {ErrorKind::resource,
            "out of memory: the limit of the machine, the container or ulimit -v is reached"};
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return {ErrorKind::resource, message_of(*error)};
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception))
    return {ErrorKind::resource, message_of(*error)};
  return {ErrorKind::unexpected, exception.what()};
}

bool working_directory_is_deleted() {
  const std::unique_ptr<char, void (*)(void*)> name(::getcwd(nullptr, 0), std::free);
  return name == nullptr && errno == ENOENT;
}

}  // namespace trainctl
