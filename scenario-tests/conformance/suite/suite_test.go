// Package suite runs the conformance suite of Gateway API with the flags of its command line.
package suite

import (
	"fmt"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	confsuite "sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// TestConformance is the whole suite.
func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}

// TestProfiles prints the features of each profile, and the profiles of each test: those with all features that the test
// needs. A test is a core test of a profile if all its features are core features.
func TestProfiles(t *testing.T) {
	profiles := []confsuite.ConformanceProfile{
		confsuite.GatewayHTTPConformanceProfile,
		confsuite.GatewayGRPCConformanceProfile,
		confsuite.GatewayTLSConformanceProfile,
		confsuite.GatewayTCPConformanceProfile,
		confsuite.GatewayUDPConformanceProfile,
	}
	for _, profile := range profiles {
		features := profile.CoreFeatures.Union(profile.ExtendedFeatures)
		for feature := range features {
			fmt.Printf("FEATURE %s %s %s\n", profile.Name, support(profile.CoreFeatures.Has(feature)), feature)
		}
		for _, test := range tests.ConformanceTests {
			if features.HasAll(test.Features...) {
				isCore := profile.CoreFeatures.HasAll(test.Features...)
				fmt.Printf("TEST %s %s %s\n", profile.Name, support(isCore), test.ShortName)
			}
		}
	}
}

func support(isCore bool) string {
	if isCore {
		return "core"
	}
	return "extended"
}
