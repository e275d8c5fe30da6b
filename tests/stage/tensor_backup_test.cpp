#include "stage/tensor_backup.hpp"

#include "support/catch.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

using namespace trainctl;

namespace {

at::Tensor flag(bool bad) { return at::full({}, bad, at::kBool); }

}  // namespace

TEST_CASE("KeptTensors: put_back_where() restores the values only if the flag is true") {
  const at::Tensor weight = at::arange(24, at::kFloat)
                                .view({2, 3, 2, 2})
                                .contiguous(at::MemoryFormat::ChannelsLast)
                                .requires_grad_(true);
  const at::Tensor exact = at::full({3}, 0.1, at::kDouble);
  const at::Tensor count = at::full({}, 7, at::kLong);
  const at::Tensor started = at::zeros({2}, at::kBool);
  const at::Tensor before = weight.detach().clone();
  stage::KeptTensors kept({weight, exact, count, started});
  for (const bool bad : {true, false, true}) {
    weight.detach().copy_(before);
    exact.fill_(0.1);
    count.fill_(7);
    started.zero_();
    kept.take();
    weight.detach().fill_(std::nan(""));
    exact.fill_(INFINITY);
    count.add_(1);
    started.fill_(true);
    kept.put_back_where(flag(bad));
    CHECK(weight.detach().equal(before) == bad);
    CHECK(weight.detach().isnan().all().item<bool>() != bad);
    CHECK(exact[2].item<double>() == (bad ? 0.1 : INFINITY));
    CHECK(count.item<std::int64_t>() == (bad ? 7 : 8));
    CHECK(started.any().item<bool>() != bad);
  }
  CHECK(weight.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_CASE("KeptTensors: only the given scalars of a tensor are restored") {
  const at::Tensor all = at::zeros({6});
  stage::KeptTensors kept({all[0], all[1], all[3], all[5], at::ones({}), all[4]});
  kept.take();
  all.fill_(5);
  kept.put_back_where(flag(true));
  CHECK(all.equal(at::tensor({0.0F, 0.0F, 5.0F, 0.0F, 0.0F, 0.0F})));
}

TEST_CASE("KeptTensors: a tensor is restored in the memory that set_data() gave it") {
  at::Tensor weight = at::ones({2, 2});
  stage::KeptTensors kept({weight});
  weight.set_data(at::full({2, 2}, 3.0));
  kept.take();
  weight.zero_();
  kept.put_back_where(flag(true));
  CHECK(weight.equal(at::full({2, 2}, 3.0)));
}
