// A cache of what jobs of each kind would choose at each pair of prices, since decisions return to the same few prices.
// Used by policies/joule_price.cpp, which explains the prices.
//
// Prices lie on grids. The price of a GPU-second is 0 at step 0, and rises by a tenth from step to step until no job
// would pay it. The price of a joule drawn now, which is paid in addition to that of every joule, is 0 at step 0, and
// rises by a fifth from step to step.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "cluster/offers.h"

namespace flyball {

inline constexpr int kGpuPrices = 180;
inline constexpr int kPowerPrices = 90;
// Ranks tell how many of the other jobs outlast a job, from 0 (none) to kRanks (all).
inline constexpr int kRanks = 8;

// A pair of prices, as steps on the two grids.
struct PriceSteps {
  int power = 0;
  int gpu = 0;
};

// The size and the speed that a job chooses.
struct SizeChoice {
  int level = -1;  // index into the kind's sizes; -1: none
  int offer = 0;
  int gpus = 0;
};

struct KindRank {
  int kind = 0;
  int rank = 0;  // from 0 to kRanks
};

// Not thread-safe.
class PriceViews {
 public:
  // What jobs of one kind and rank would choose.
  struct View {
    int version = -1;    // of the kind's offers
    SizeChoice best;     // the choice of a job that need not restart
    double worth = 0.0;  // of an iteration
  };
  // The choices at one pair of prices.
  struct Page {
    std::vector<View> views;  // by kind and rank
    std::vector<Gain> gains;  // by view, then by level
  };

  // Takes the energy price from the power limit, and reads the offers of the kinds that changed or are new. Must be
  // called before anything else.
  void read(const ClusterState& cluster, const std::vector<int>& kinds_changed, const std::vector<int>& power_changed);

  [[nodiscard]] const std::vector<SizeOffers>& offers(int kind) const {
    return offers_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] double energy_price() const { return energy_price_; }

  // Returns the page of a pair of prices, which stays valid until the next page_at() or read().
  [[nodiscard]] Page& page_at(const PriceSteps& steps);
  // Returns the view of a kind and rank, computed at the first call. `page` must be that of `steps`.
  const View& view(Page& page, const KindRank& one, const PriceSteps& steps);
  // The gains of a kind and rank by level. view() must have been called for them on this page.
  [[nodiscard]] Gain* gains(Page& page, const KindRank& one) const;
  // Returns the offer that jobs of this kind and rank would choose at one size.
  int offer_at(Page& page, const KindRank& one, const PriceSteps& steps, int level);

 private:
  struct Worth {
    int version = -1;
    double value = 0.0;
  };

  void read_offers(const ClusterState& cluster, const std::vector<int>& kinds_changed,
                   const std::vector<int>& power_changed);
  void look(View& seen, Gain* gains, const KindRank& one, const PriceSteps& steps);
  double worth_of(const KindRank& one, int gpu_step);

  std::vector<std::vector<SizeOffers>> offers_;  // by kind
  std::vector<int> versions_;                    // of the kind's costs, to tell when they change
  std::vector<std::size_t> first_gain_{0};       // by kind and rank: where a view's gains begin; at the end: how many
  std::map<int, Page> pages_;                    // by steps
  std::vector<Worth> worths_;                    // by GPU step, kind and rank
  double energy_price_ = 0.0;
};

}  // namespace flyball
