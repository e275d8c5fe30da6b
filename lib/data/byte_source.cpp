#include "data/byte_source.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/file_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace trainctl::data {
namespace {

std::string named(const fs::path& path) { return printable(path.string()); }

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    ENSURE(data, fd_.valid(), "cannot read {}: {}", named(path_), std::strerror(errno));
    struct stat info {};
    ENSURE(data, ::fstat(fd_.get(), &info) == 0, "cannot read {}: {}", named(path_),
           std::strerror(errno));
    ENSURE(data, S_ISREG(info.st_mode), "cannot read {}: it is not a regular file", named(path_));
    size_ = static_cast<std::uint64_t>(info.st_size);
  }

  std::size_t read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t count = ::read(fd_.get(), out.data() + done, out.size() - done);
      if (count < 0 && errno == EINTR) continue;
      ENSURE(data, count >= 0, "cannot read {} at byte {}: {}", named(path_), offset_ + done,
             std::strerror(errno));
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    offset_ += done;
    return done;
  }

  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t skipped = std::min(count, size_ - std::min(size_, offset_));
    const off_t at = ::lseek(fd_.get(), static_cast<off_t>(skipped), SEEK_CUR);
    ENSURE(data, at >= 0, "cannot read {} at byte {}: {}", named(path_), offset_,
           std::strerror(errno));
    offset_ += skipped;
    return skipped;
  }

  [[nodiscard]] std::uint64_t most() const override { return size_; }

 private:
  fs::path path_;
  Fd fd_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
};

/// The local copy of a remote file.
class RemoteSource final : public ByteSource {
 public:
  explicit RemoteSource(const fs::path& path) : file_(path) {}

  std::size_t read(std::span<std::byte> out) override {
    const auto part = out.first(std::min<std::uint64_t>(out.size(), file_.size() - offset_));
    file_.read(offset_, part);
    offset_ += part.size();
    return part.size();
  }

  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t skipped = std::min(count, file_.size() - offset_);
    offset_ += skipped;
    return skipped;
  }

  [[nodiscard]] std::uint64_t most() const override { return file_.size(); }

 private:
  FileReader file_;
  std::uint64_t offset_ = 0;
};

std::unique_ptr<ByteSource> open_plain(const fs::path& path) {
  if (is_remote(path)) return std::make_unique<RemoteSource>(path);
  return std::make_unique<PlainSource>(path);
}

// One gzip member (RFC 1952), as gzip(1) writes it.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : path_(path), packed_(open_plain(path)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    ENSURE(resource, ::inflateInit2(&stream_, kGzipOnly) == Z_OK,
           "zlib cannot start: out of memory");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) refill();
      // zlib counts in 32 bits.
      const std::size_t piece = std::min<std::size_t>(out.size() - done, std::size_t{1} << 30);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(piece);
      step();
      done += piece - stream_.avail_out;
    }
    return done;
  }

  // Deflate's densest code: 258 bytes for two bits.
  [[nodiscard]] std::uint64_t most() const override { return packed_->most() * 1032; }

 private:
  void refill() {
    const std::size_t count = packed_->read(buffer_);
    consumed_ += count;
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(count);
    ENSURE(data, count > 0,
           "{} ends at byte {}, in the middle of its gzip stream: the file is cut off",
           named(path_), consumed_);
  }

  void step() {
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    const std::uint64_t at = consumed_ - stream_.avail_in;
    ENSURE(resource, code != Z_MEM_ERROR, "zlib is out of memory while it unpacks {}",
           named(path_));
    ENSURE(data, code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END,
           "{} is not a sound gzip file: {} at byte {}", named(path_),
           stream_.msg != nullptr ? stream_.msg : "bad stream", at);
    if (code != Z_STREAM_END) return;
    ended_ = true;
    ENSURE(data, at == packed_->most(),
           "{} has {} bytes behind the end of its gzip stream, at byte {}; expected none",
           named(path_), packed_->most() - at, at);
  }

  fs::path path_;
  std::unique_ptr<ByteSource> packed_;
  z_stream stream_{};
  std::array<std::byte, 1 << 16> buffer_;
  std::uint64_t consumed_ = 0;
  bool ended_ = false;
};

}  // namespace

std::uint64_t ByteSource::skip(std::uint64_t count) {
  std::array<std::byte, 1 << 14> dropped;
  std::uint64_t done = 0;
  while (done < count) {
    const std::size_t piece =
        static_cast<std::size_t>(std::min<std::uint64_t>(dropped.size(), count - done));
    const std::size_t got = read(std::span(dropped).first(piece));
    done += got;
    if (got < piece) break;
  }
  return done;
}

std::unique_ptr<ByteSource> open_source(const fs::path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipSource>(path);
  return open_plain(path);
}

}  // namespace trainctl::data
