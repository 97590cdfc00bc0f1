// A view is computed when it is first asked for, and again only after the kind's costs have changed.
#include "cluster/price_views.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace flyball {
namespace {

// The share of the present GPU price that counts for a job that none of the others outlasts.
constexpr double kLasting = 0.6;
constexpr std::size_t kRankCount = kRanks + 1;
constexpr std::size_t kMostViews = 200'000;  // kept; about 150 bytes each

std::size_t view_index(const KindRank& one) { return at(one.kind) * kRankCount + at(one.rank); }

std::vector<double> rising_prices(int steps, double first, double factor) {
  std::vector<double> prices{0.0};
  for (int step = 1; step < steps; ++step) prices.push_back(first * std::pow(factor, step - 1));
  return prices;
}

double gpu_price(int step) {
  static const std::vector<double> prices = rising_prices(kGpuPrices, 1e-3, 1.1);
  return prices[at(step)];
}

double power_price(int step) {
  static const std::vector<double> prices = rising_prices(kPowerPrices, 1e-5, 1.2);
  return prices[at(step)];
}

}  // namespace

void PriceViews::read(const ClusterState& cluster, const std::vector<int>& kinds_changed,
                      const std::vector<int>& power_changed) {
  read_offers(cluster, kinds_changed, power_changed);
  const double all = cluster.spec.p_max.value() * cluster.spec.gpus();
  const double eta = cluster.power_limit.value() / all;
  const double price = eta >= 1.0 ? 0.0 : (1.0 - eta) / (std::max(eta, 1e-3) * cluster.spec.p_max.value());
  if (price != energy_price_) {
    pages_.clear();
    worths_.clear();
  }
  energy_price_ = price;
}

void PriceViews::read_offers(const ClusterState& cluster, const std::vector<int>& kinds_changed,
                             const std::vector<int>& power_changed) {
  for (int kind = static_cast<int>(offers_.size()); at(kind) < cluster.kinds.size(); ++kind) {
    offers_.push_back(offers_of(cluster, kind));
    versions_.push_back(0);
    for (std::size_t rank = 0; rank < kRankCount; ++rank) {
      first_gain_.push_back(first_gain_.back() + cluster.kinds[at(kind)].sizes.size());
    }
    pages_.clear();  // they are laid out by kinds
    worths_.clear();
  }
  // What one kind was measured at decides which sizes the other kinds of its network are offered.
  for (const int changed : kinds_changed) {
    for (int kind = 0; kind < static_cast<int>(offers_.size()); ++kind) {
      if (cluster.kinds[at(kind)].model != cluster.kinds[at(changed)].model) continue;
      offers_[at(kind)] = offers_of(cluster, kind);
      ++versions_[at(kind)];
    }
  }
  for (const int kind : power_changed) offers_[at(kind)] = offers_of(cluster, kind);
}

PriceViews::Page& PriceViews::page_at(const PriceSteps& steps) {
  const std::size_t views = offers_.size() * kRankCount;
  if (pages_.size() * views > kMostViews) pages_.clear();
  Page& page = pages_[steps.power * kGpuPrices + steps.gpu];
  page.views.resize(views);
  page.gains.resize(first_gain_.back());
  return page;
}

Gain* PriceViews::gains(Page& page, const KindRank& one) const {
  return page.gains.data() + first_gain_[view_index(one)];
}

const PriceViews::View& PriceViews::view(Page& page, const KindRank& one, const PriceSteps& steps) {
  View& seen = page.views[view_index(one)];
  if (seen.version != versions_[at(one.kind)]) look(seen, gains(page, one), one, steps);
  return seen;
}

int PriceViews::offer_at(Page& page, const KindRank& one, const PriceSteps& steps, int level) {
  (void)view(page, one, steps);
  return gains(page, one)[level].offer;
}

void PriceViews::look(View& seen, Gain* gains, const KindRank& one, const PriceSteps& steps) {
  const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
  const Prices prices{energy_price_ + power_price(steps.power), gpu_price(steps.gpu)};
  seen.version = versions_[at(one.kind)];
  seen.worth = worth_of(one, steps.gpu);
  std::size_t best = 0;
  for (std::size_t level = 0; level < sizes.size(); ++level) {
    gains[level] = best_gain(sizes[level], seen.worth, prices);
    if (gains[level].value > gains[best].value) best = level;
  }
  seen.best = {static_cast<int>(best), gains[best].offer, sizes[best].gpus};
}

// The price of power has no part in this, since it does not last.
double PriceViews::worth_of(const KindRank& one, int gpu_step) {
  worths_.resize(kGpuPrices * offers_.size() * kRankCount);
  Worth& seen = worths_[at(gpu_step) * offers_.size() * kRankCount + view_index(one)];
  if (seen.version != versions_[at(one.kind)]) {
    const double lasting = kLasting + (1.0 - kLasting) * one.rank / kRanks;
    seen.version = versions_[at(one.kind)];
    seen.value = least_cost(offers_[at(one.kind)], {energy_price_, gpu_price(gpu_step) * lasting});
  }
  return seen.value;
}

}  // namespace flyball
