#include "data/formats/archive.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/formats/file_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>

namespace trainctl::data {
namespace {

std::string named(const fs::path& path) { return printable(path.string()); }

/// Of a remote file its local copy.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const fs::path& path) : file_(path) {}

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

// One gzip member (RFC 1952), as gzip(1) writes it.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : path_(path), packed_(path) {
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
  [[nodiscard]] std::uint64_t most() const override { return packed_.most() * 1032; }

 private:
  void refill() {
    const std::size_t count = packed_.read(buffer_);
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
    ENSURE(data, at == packed_.most(),
           "{} has {} bytes behind the end of its gzip stream, at byte {}; expected none",
           named(path_), packed_.most() - at, at);
  }

  fs::path path_;
  FileSource packed_;
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
  return std::make_unique<FileSource>(path);
}

}  // namespace trainctl::data
