#include "checkpoint/container_source.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainctl::container {

Source::Source(const std::filesystem::path& path)
    // Without O_NONBLOCK a pipe would wait for its writer.
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  const int cause = errno;
  if (!fd_.valid())
    throw Error(tells_what_is_there(cause) ? ErrorKind::checkpoint : ErrorKind::resource,
                fmt::format("cannot open it: {}", std::strerror(cause)));
  struct stat info {};
  ENSURE(resource, ::fstat(fd_.get(), &info) == 0, "cannot examine it: {}", std::strerror(errno));
  ENSURE(checkpoint, S_ISREG(info.st_mode), "is no regular file");
  size_ = static_cast<std::size_t>(info.st_size);
}

void Source::read(std::uint64_t at, std::span<std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pread(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    ENSURE(resource, count >= 0, "reading it failed: {}", std::strerror(errno));
    ENSURE(checkpoint, count > 0, "became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace trainctl::container
