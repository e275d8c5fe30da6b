#include "data/read_ahead/file_stream.hpp"

#include "data/core/parallel.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <system_error>
#include <utility>

namespace trainctl::data {
namespace {

constexpr std::uint64_t kLargeSample = 64 << 10;  // the disk reads those as fast at any place
constexpr std::size_t kMostFiles = 64;
constexpr std::uint64_t kChunk = 1 << 20;

}  // namespace

FileStream::FileStream(const ImageRanges& ranges, std::vector<FileRange> parts)
    : ranges_(ranges), parts_(std::move(parts)) {
  if (parts_.empty()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // Then every sample is read at its turn.
  }
}

FileStream::~FileStream() {
  stopped_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void FileStream::run() {
  prepare_thread("trainctl-stream", Priority::below_trainer);
  std::vector<std::byte> buffer(kChunk);
  try {
    for (const FileRange& part : parts_) read(part, buffer);
  } catch (const std::exception&) {
    // Who needs what could not be read tells the error.
  }
}

void FileStream::read(const FileRange& part, std::vector<std::byte>& buffer) const {
  const FileReader file = ranges_.open(part.file);
  const std::uint64_t end = std::min(part.offset + part.bytes, file.size());
  for (std::uint64_t at = part.offset; at < end && !stopped_.load(std::memory_order_relaxed);) {
    const std::uint64_t bytes = std::min(kChunk, end - at);
    file.read(at, std::span(buffer).first(bytes));
    at += bytes;
  }
}

std::vector<FileRange> parts_to_stream(const ImageRanges& ranges, std::int64_t samples,
                                       std::uint64_t memory) {
  const std::uint64_t bytes = ranges.bytes();
  if (samples == 0 || bytes / static_cast<std::uint64_t>(samples) >= kLargeSample) return {};
  if (bytes > memory / 4) return {};
  std::map<std::size_t, std::pair<std::uint64_t, std::uint64_t>> spans;
  for (std::int64_t i = 0; i < samples; ++i) {
    const FileRange range = ranges.range(i);
    if (range.bytes == 0) continue;
    const auto [span, is_new] =
        spans.try_emplace(range.file, range.offset, range.offset + range.bytes);
    if (is_new && spans.size() > kMostFiles) return {};
    span->second.first = std::min(span->second.first, range.offset);
    span->second.second = std::max(span->second.second, range.offset + range.bytes);
  }
  std::vector<FileRange> parts;
  std::uint64_t all = 0;
  for (const auto& [file, span] : spans) {
    if (ranges.open(file).reads_remote()) return {};
    parts.push_back({file, span.first, span.second - span.first});
    all += parts.back().bytes;
  }
  return all <= 2 * bytes ? parts
                          : std::vector<FileRange>();  // else much would be read for nothing
}

}  // namespace trainctl::data
