// Sentences about a footprint that the command's text and the page both have.
#pragma once

#include <string>

#include "account/footprint.h"

namespace flyball {

// "A step takes 12.3 J +- 0.4 J in 0.52 s, mean of 5 steps (CPU:0 2.2 J, GPU:0 10.1 J); 0.384 J a sample"; empty where
// nothing is known of steps.
[[nodiscard]] std::string steps_sentence(const StepEnergy& steps);

// "Of what is attributed: compute 80.1 %, communicate 19.9 %"; empty where all work is of one class.
[[nodiscard]] std::string classes_sentence(const Footprint& footprint);

// "Communication took 10.2 s of devices' time, 7.1 s of it beside other work; alone it drew 350 J"; empty where nothing
// communicates.
[[nodiscard]] std::string communication_sentence(const Footprint& footprint);

// "Of what is attributed, 12.3 J are static and 45.6 J dynamic (GPU:0 draws 80 W while nothing runs)"; empty where
// neither is known of any device.
[[nodiscard]] std::string static_sentence(const Footprint& footprint);

}  // namespace flyball
