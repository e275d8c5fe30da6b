#include "dist/communicator.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "dist/c10d_group.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace trainctl::dist {

void Communicator::barrier(const std::string& what) { sum(at::zeros({1}, at::kInt), what); }

void Communicator::abort(std::function<void()> before) noexcept {
  try {
    if (before) before();
  } catch (...) {  // the failure that ends the group is reported instead
  }
}

namespace {

class Single final : public Communicator {
 public:
  [[nodiscard]] RankInfo rank_info() const override { return {}; }
  Pending start_sum(const at::Tensor& /*tensor*/, const std::string& /*what*/) override {
    return [] {};
  }
  Pending start_broadcast(const at::Tensor& /*tensor*/, int /*root*/,
                          const std::string& /*what*/) override {
    return [] {};
  }
  Pending start_all_gather(const at::Tensor& all, const at::Tensor& mine,
                           const std::string& /*what*/) override {
    all.copy_(mine);
    return [] {};
  }
  void broadcast(const at::Tensor& /*tensor*/, const std::string& /*what*/) override {}
  void broadcast_coalesced(const std::vector<at::Tensor>& /*tensors*/,
                           const std::string& /*what*/) override {}
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor,
                                     const std::string& /*what*/) override {
    return {tensor.detach().clone()};
  }
  std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> /*parameters*/,
                                           const BucketOptions& /*buckets*/) override {
    return std::make_unique<GradSync>();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single() { return std::make_unique<Single>(); }

namespace {

using Lines = std::vector<std::string>;

std::vector<at::Tensor> gather_digests(Communicator& communicator, const std::string& text,
                                       const std::string& what) {
  const at::Tensor mine = at::empty({2}, at::kLong);
  auto* values = mine.mutable_data_ptr<std::int64_t>();
  values[0] = static_cast<std::int64_t>(hash_bytes(std::as_bytes(std::span(text))));
  values[1] = static_cast<std::int64_t>(text.size());
  return communicator.all_gather(mine, fmt::format("comparison of the {}", what));
}

std::vector<Lines> gather_lines(Communicator& communicator, const std::string& text,
                                std::int64_t longest, const std::string& what) {
  const at::Tensor mine = at::zeros({longest}, at::kByte);
  std::memcpy(mine.mutable_data_ptr<std::uint8_t>(), text.data(), text.size());
  std::vector<Lines> all;
  for (const at::Tensor& one :
       communicator.all_gather(mine, fmt::format("descriptions of the {}", what))) {
    const auto* bytes = reinterpret_cast<const char*>(one.const_data_ptr<std::uint8_t>());
    const std::string theirs(bytes, ::strnlen(bytes, static_cast<std::size_t>(longest)));
    all.push_back(split(theirs, '\n'));
  }
  return all;
}

std::string difference(const Lines& here, const Lines& first) {
  const auto [mine, theirs] = std::ranges::mismatch(here, first);
  if (mine == here.end()) return fmt::format("lacks '{}', which rank 0 has", printable(*theirs));
  if (theirs == first.end()) return fmt::format("has '{}', which rank 0 lacks", printable(*mine));
  return fmt::format("has '{}' where rank 0 has '{}'", printable(*mine), printable(*theirs));
}

}  // namespace

std::string description_of(const std::string& name, const at::Tensor& tensor) {
  std::string sizes;
  for (const std::int64_t size : tensor.sizes())
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return fmt::format("{}: {} [{}]{}", name, c10::toString(tensor.scalar_type()), sizes,
                     tensor.requires_grad() ? "" : ", not trained");
}

std::vector<std::string> descriptions_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> lines;
  for (const at::Tensor& tensor : tensors)
    lines.push_back(description_of(fmt::format("number {}", lines.size() + 1), tensor));
  return lines;
}

void verify_equal(Communicator& communicator, const std::vector<std::string>& lines,
                  const std::string& what) {
  if (communicator.rank_info().world_size == 1) return;
  const std::string text = join(lines, "\n");
  const std::vector<at::Tensor> digests = gather_digests(communicator, text, what);
  std::int64_t longest = 1;
  bool alike = true;
  for (const at::Tensor& digest : digests) {
    alike = alike && digest.equal(digests.front());  // a digest is on the host
    longest = std::max(longest, digest.const_data_ptr<std::int64_t>()[1]);
  }
  if (alike) return;
  const std::vector<Lines> all = gather_lines(communicator, text, longest, what);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    throw Error(ErrorKind::config,
                fmt::format("the {} of the ranks differ: rank {} {}\nhint: start all ranks with "
                            "the same trainctl, config, data and plug-ins",
                            what, rank, difference(all[rank], all.front())));
  }
}

}  // namespace trainctl::dist
