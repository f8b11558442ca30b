// Package chat turns a conversation into the prompt of a GLM model.
package chat
