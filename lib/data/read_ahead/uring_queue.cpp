#include "base/error.hpp"
#include "data/read_ahead/read_queue.hpp"

#include <liburing.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace trainctl::data {
namespace {

constexpr std::size_t kMostRegistered = std::size_t{1} << 30;  // the kernel's limit of one buffer
constexpr std::size_t kMostRead = std::size_t{1} << 30;        // io_uring lengths have 32 bits

class UringQueue final : public ReadQueue {
 public:
  UringQueue(unsigned depth, std::span<std::byte> memory) : memory_(memory) {
    made_ = ::io_uring_queue_init(depth, &ring_, 0) == 0;
    if (made_) register_memory();
  }
  ~UringQueue() override {
    if (made_) ::io_uring_queue_exit(&ring_);
  }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  [[nodiscard]] bool made() const { return made_; }

  void submit(const ReadRequest& request) override {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    ASSERT(entry != nullptr);
    const auto bytes = static_cast<unsigned>(std::min(request.out.size(), kMostRead));
    const auto at = static_cast<std::size_t>(request.out.data() - memory_.data());
    const std::size_t buffer = at / kMostRegistered;
    if (registered_ && (at + bytes - 1) / kMostRegistered == buffer) {
      ::io_uring_prep_read_fixed(entry, request.fd, request.out.data(), bytes, request.offset,
                                 static_cast<int>(buffer));
    } else {
      ::io_uring_prep_read(entry, request.fd, request.out.data(), bytes, request.offset);
    }
    ::io_uring_sqe_set_data64(entry, request.tag);
  }

  void collect(unsigned least, std::vector<ReadResult>& results) override {
    int code = 0;
    do {
      code = ::io_uring_submit_and_wait(&ring_, least);
    } while (code == -EINTR || code == -EAGAIN);
    ENSURE(resource, code >= 0, "cannot read files with io_uring: {}", std::strerror(-code));
    std::array<io_uring_cqe*, 64> ended;
    unsigned count = 0;
    while ((count = ::io_uring_peek_batch_cqe(&ring_, ended.data(), ended.size())) > 0) {
      for (const io_uring_cqe* entry : std::span(ended).first(count))
        results.push_back({static_cast<std::uint32_t>(entry->user_data), entry->res});
      ::io_uring_cq_advance(&ring_, count);
    }
  }

 private:
  /// Registered buffers save the kernel a page lookup per read. Registration fails under a low
  /// limit of locked memory; reads work without it.
  void register_memory() {
    std::vector<iovec> buffers;
    for (std::size_t at = 0; at < memory_.size(); at += kMostRegistered) {
      const auto part = memory_.subspan(at, std::min(kMostRegistered, memory_.size() - at));
      buffers.push_back({part.data(), part.size()});
    }
    registered_ = ::io_uring_register_buffers(&ring_, buffers.data(),
                                              static_cast<unsigned>(buffers.size())) == 0;
  }

  std::span<std::byte> memory_;
  io_uring ring_{};
  bool made_ = false;
  bool registered_ = false;
};

}  // namespace

std::unique_ptr<ReadQueue> uring_queue(unsigned depth, std::span<std::byte> memory) {
  auto queue = std::make_unique<UringQueue>(depth, memory);
  if (!queue->made()) return nullptr;
  return queue;
}

}  // namespace trainctl::data
